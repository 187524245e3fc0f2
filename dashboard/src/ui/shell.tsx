// SPDX-License-Identifier: Apache-2.0
// What stands above every page: where one can go, how the daemon is, the key, the theme.
import { useEffect, useRef, useState } from "preact/hooks";
import { KEY_WANTED, getJson, isRefused, keepKey, readKey } from "../lib/api.ts";
import { usePoll } from "../lib/hooks.ts";
import { askLatency, type Latency } from "../pages/latency_data.ts";
import type { Theme } from "./theme.ts";

export interface PageName {
  name: string;
  title: string;
}

interface Health {
  isThere: boolean;
  since: Date;
  isOther: boolean;
}

/** Whether the daemon answers, and whether it has another page than this one by now. */
function useHealth(): Health {
  const [health, setHealth] = useState<Health>({
    isThere: true,
    since: new Date(),
    isOther: false,
  });
  const first = useRef<string | null>(null);
  usePoll(async () => {
    const answer = await fetch("./", { method: "HEAD", cache: "no-store" }).catch(() => null);
    const tag = answer?.ok ? answer.headers.get("ETag") : null;
    first.current ??= tag;
    setHealth((old) => ({
      isThere: tag !== null,
      isOther: tag !== null && tag !== first.current,
      since: (tag !== null) === old.isThere ? old.since : new Date(),
    }));
  }, 5000);
  return health;
}

interface Description {
  version: string;
  kernels: { name: string; default: boolean }[];
}

function useDescription(isThere: boolean): string {
  const [text, setText] = useState("");
  useEffect(() => {
    if (!isThere) return;
    getJson<Description>("v1").then(
      ({ version, kernels }) =>
        setText(`${version}, ${kernels.find((kernel) => kernel.default)?.name ?? "no kernel"}`),
      () => setText(""),
    );
  }, [isThere]);
  return text;
}

/** Calls that wait, where this page may know. */
function useQueue(): string {
  const [text, setText] = useState("");
  const [error, setError] = useState<Error>();
  const show = ({ buckets, queue_limit }: Latency) => {
    const last = buckets.at(-1);
    setText(last ? `queue ${last.queue_depth} of ${queue_limit}` : "");
    setError(undefined);
  };
  const forget = (thrown: Error) => {
    setText("");
    setError(thrown);
  };
  usePoll(() => askLatency().then(show, forget), isRefused(error) ? 60_000 : 10_000);
  return text;
}

interface HeaderProps {
  pages: readonly PageName[];
  current: string;
  theme: Theme;
  onTheme: () => void;
}

export function Header({ pages, current, theme, onTheme }: HeaderProps) {
  const health = useHealth();
  const description = useDescription(health.isThere);
  const queue = useQueue();
  return (
    <>
      <header class="top">
        <a class="brand" href="#maps">
          attentiond
        </a>
        <nav aria-label="Pages">
          {pages.map(({ name, title }) => (
            <a key={name} href={`#${name}`} aria-current={name === current ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <span class={health.isThere ? "pill" : "pill lost"} role="status">
          {health.isThere ? "ready" : `no answer since ${health.since.toLocaleTimeString()}`}
        </span>
        <span class="version">{description}</span>
        <span class="queue">{queue}</span>
        <button type="button" onClick={onTheme}>
          {theme === "dark" ? "Light" : "Dark"} theme
        </button>
      </header>
      {health.isOther && (
        <p class="bar" role="status">
          The daemon has another version of this page.{" "}
          <button type="button" onClick={() => location.reload()}>
            Load it
          </button>
        </p>
      )}
      <KeyForm />
    </>
  );
}

/** Asks for a key once a call was refused for want of one. */
function KeyForm() {
  const [isWanted, setIsWanted] = useState(false);
  const [key, setKey] = useState(readKey());
  useEffect(() => {
    const ask = () => setIsWanted(true);
    addEventListener(KEY_WANTED, ask);
    return () => removeEventListener(KEY_WANTED, ask);
  }, []);
  const keep = (event: Event) => {
    event.preventDefault();
    keepKey(key.trim());
    location.reload();
  };
  return !isWanted ? null : (
    <form class="bar" onSubmit={keep}>
      <label class="field">
        <span>This daemon wants a key that may do this. It stays in this tab.</span>
        <input
          type="password"
          autocomplete="off"
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Use it</button>
    </form>
  );
}
