// SPDX-License-Identifier: Apache-2.0
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { isAbort } from "./api.ts";

export interface Pending<T> {
  value?: T;
  error?: Error;
  isBusy: boolean;
}

/** Work that may show something on the way, before its result. */
export type Work<T> = (signal: AbortSignal, showEarly: (value: T) => void) => Promise<T>;

/** The latest result of `work`, which begins anew when `inputs` change; what came before stays until
 *  then. Undefined work is none. */
export function useAsync<T>(work: Work<T> | undefined, inputs: readonly unknown[]): Pending<T> {
  const [state, setState] = useState<Pending<T>>({ isBusy: false });
  useEffect(() => {
    if (!work) {
      setState({ isBusy: false });
      return;
    }
    const abort = new AbortController();
    let isDone = false;
    const show = (next: (old: Pending<T>) => Pending<T>) => abort.signal.aborted || setState(next);
    show((old) => ({ value: old.value, isBusy: true }));
    work(abort.signal, (value) => {
      if (!isDone) show(() => ({ value, isBusy: true }));
    })
      .then(
        (value) => show(() => ({ value, isBusy: false })),
        (error) => isAbort(error) || show((old) => ({ value: old.value, error, isBusy: false })),
      )
      .finally(() => {
        isDone = true;
      });
    return () => abort.abort();
  }, inputs);
  return state;
}

/** Calls `work` at once and every `milliseconds` while somebody looks at the page. */
export function usePoll(
  work: () => Promise<unknown>,
  milliseconds: number,
  inputs: readonly unknown[] = [],
): void {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    let timer = 0;
    let isOver = false;
    const next = async () => {
      if (!document.hidden) await latest.current().catch(() => undefined);
      if (!isOver) timer = setTimeout(next, milliseconds);
    };
    next();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [milliseconds, ...inputs]);
}

/** The value as it was once it had stayed the same for a while. */
export function useSettled<T>(value: T, milliseconds: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return settled;
}

/** The width of an element in pixels, as it changes; 0 before it is there. */
export function useRoom() {
  const place = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setRoom(place.current!.clientWidth);
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(place.current!);
    return () => watch.disconnect();
  }, []);
  return [place, room] as const;
}
