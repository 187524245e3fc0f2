// SPDX-License-Identifier: Apache-2.0
// Calls of the service. Addresses are relative, so that the page works below any path.

/** A refusal, in the service's own words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly pointer?: string,
  ) {
    super(detail || title);
  }
}

const KEY = "attentiond-key";
export const KEY_WANTED = "keywanted";

export const readKey = (): string => sessionStorage.getItem(KEY) ?? "";
export function keepKey(key: string): void {
  sessionStorage.setItem(KEY, key);
}

async function problemOf(answer: Response): Promise<Problem> {
  const said = await answer.json().catch(() => ({}));
  return new Problem(
    answer.status,
    said.title ?? `Status ${answer.status}`,
    said.detail ?? answer.statusText,
    said.pointer,
  );
}

/** The answer to a call, which is relative to the page; throws a Problem for every refusal. */
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = readKey();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  const answer = await fetch(path, { cache: "no-cache", ...init, headers });
  if (answer.ok) return answer;
  if (answer.status === 401) dispatchEvent(new Event(KEY_WANTED));
  throw await problemOf(answer);
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await call(path, { signal })).json();
}

export async function postJson<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const answer = await call(path, {
    method: "POST",
    signal,
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
  });
  return answer.json();
}

const isWords = (value: unknown): boolean =>
  Array.isArray(value) && value.every((item) => typeof item === "string");

/** A query string; undefined is left out, words stand in a comma list, and objects are JSON. */
export function queryOf(options: Record<string, unknown>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options))
    if (value !== undefined)
      query.set(
        name,
        typeof value === "object" && !isWords(value) ? JSON.stringify(value) : String(value),
      );
  return query.toString();
}

export const isAbort = (error: unknown): boolean =>
  error instanceof DOMException && error.name === "AbortError";

/** Whether the service wants a key, which the frame of the page then asks for. */
export const isKeyWanted = (error?: Error): boolean =>
  error instanceof Problem && error.status === 401;

/** Whether asking the same again is of no use. */
export const isRefused = (error?: Error): boolean =>
  error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429;
