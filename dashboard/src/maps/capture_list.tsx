// SPDX-License-Identifier: Apache-2.0
// What there is to look at: what this page holds, and what the daemon has kept.
import { useState } from "preact/hooks";
import { Problem, isKeyWanted, isRefused } from "../lib/api.ts";
import { usePoll } from "../lib/hooks.ts";
import { bytes, clockOf, counted } from "../lib/text.ts";
import {
  deleteCapture,
  listCaptures,
  pinCapture,
  type Capture,
} from "../sources/capture_source.ts";
import { useHeld } from "../sources/held.ts";

export interface CaptureFeed {
  captures: readonly Capture[];
  isEnabled: boolean; // the daemon keeps what calls ask it to
  error?: Error;
  refresh: () => void;
}

/** The daemon's captures, asked for again and again. */
export function useCaptures(): CaptureFeed {
  const [feed, setFeed] = useState<Omit<CaptureFeed, "refresh">>({
    captures: [],
    isEnabled: false,
  });
  const ask = () =>
    listCaptures().then(
      ({ captures, enabled }) => setFeed({ captures, isEnabled: enabled !== false }),
      (error: Error) => setFeed((old) => ({ ...old, error })),
    );
  usePoll(ask, isRefused(feed.error) ? 60_000 : 2000);
  return { ...feed, refresh: ask };
}

const shapeOf = (capture: Capture): string =>
  `${counted(capture.heads, "head")}, ${capture.queries} × ${capture.keys}` +
  (capture.batch > 1 ? `, batch ${capture.batch}` : "");

interface ListProps {
  feed: CaptureFeed;
  chosen: string;
  onChoose: (id: string) => void;
}

export function CaptureList({ feed, chosen, onChoose }: ListProps) {
  const requests = useHeld();
  return (
    <nav class="captures" aria-label="Maps">
      <ul>
        {requests.map(({ id, name }) => (
          <li key={id}>
            <button type="button" aria-current={id === chosen} onClick={() => onChoose(id)}>
              <strong>{name}</strong>
              <small>computed as you look</small>
            </button>
          </li>
        ))}
        {feed.captures.map((capture) => (
          <CaptureRow key={capture.id} {...{ capture, chosen, onChoose, refresh: feed.refresh }} />
        ))}
      </ul>
      <FeedState feed={feed} />
    </nav>
  );
}

function CaptureRow({
  capture,
  chosen,
  onChoose,
  refresh,
}: Omit<ListProps, "feed"> & { capture: Capture; refresh: () => void }) {
  const { id, name, run, layer, pinned } = capture;
  const tags = [
    run && `run ${run}`,
    layer !== undefined && layer !== null && `layer ${layer}`,
    capture.approximate && "approximate",
    pinned && "pinned",
  ].filter(Boolean);
  const [refusal, setRefusal] = useState("");
  const change = (work: Promise<unknown>) =>
    work
      .then(
        () => setRefusal(""),
        (error: Error) => setRefusal(error.message),
      )
      .finally(refresh);
  return (
    <li>
      <button type="button" aria-current={id === chosen} onClick={() => onChoose(id)}>
        <strong>{name || id}</strong>
        <small>
          {shapeOf(capture)} · {bytes(capture.bytes)} · {clockOf(capture.created)}
        </small>
        {tags.length > 0 && <small>{tags.join(" · ")}</small>}
      </button>
      {refusal && (
        <p class="hint" role="alert">
          {refusal}
        </p>
      )}
      <span class="rowtools">
        <button
          type="button"
          aria-label={`${pinned ? "Unpin" : "Pin"} ${name || id}`}
          onClick={() => change(pinCapture(id, !pinned))}
        >
          {pinned ? "unpin" : "pin"}
        </button>
        <button
          type="button"
          aria-label={`Delete ${name || id}`}
          onClick={() => change(deleteCapture(id))}
        >
          delete
        </button>
      </span>
    </li>
  );
}

function FeedState({ feed }: { feed: CaptureFeed }) {
  const { error, captures, isEnabled } = feed;
  if (isKeyWanted(error)) return null; // the frame asks for one
  if (error instanceof Problem) return <p class="hint">{error.message}</p>;
  if (error)
    return (
      <p class="hint" role="status">
        The daemon does not answer; this list may be old.
      </p>
    );
  if (!isEnabled)
    return (
      <p class="hint">
        This daemon keeps no captures: it was started without the option <code>captures</code>.
        Files that you drop on <a href="#send">Send</a> are drawn all the same.
      </p>
    );
  if (captures.length > 0)
    return (
      <p class="hint">
        {captures.length === 1 ? "One capture holds" : `${captures.length} captures hold`}{" "}
        {bytes(captures.reduce((sum, one) => sum + one.bytes, 0))}; when there is no room the oldest
        goes first, unless it is pinned.
      </p>
    );
  return (
    <p class="hint">
      Nothing captured yet: add{" "}
      <code>
        "capture":{"{"}"name":"mine"{"}"}
      </code>{" "}
      to a call, or see <a href="#send">Send</a>.
    </p>
  );
}
