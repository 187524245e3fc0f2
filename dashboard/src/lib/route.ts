// SPDX-License-Identifier: Apache-2.0
// The place in the page, kept behind the # of its address, so that a link brings all of it back:
// "#maps?id=7&head=2".
import { useEffect, useState } from "preact/hooks";

export type Params = Readonly<Record<string, string>>;
export interface Place {
  page: string;
  params: Params;
}

export function parsePlace(hash: string): Place {
  const [page = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  return { page: page || "maps", params: Object.fromEntries(new URLSearchParams(query)) };
}

export function formatPlace({ page, params }: Place): string {
  const query = new URLSearchParams(params).toString();
  return `#${page}${query && `?${query}`}`;
}

const CHANGED = "placechange";

/** Goes to a place; a step of its own in the history where `isStep`. */
export function goTo(place: Place, isStep: boolean): void {
  const address = formatPlace(place);
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  dispatchEvent(new Event(CHANGED));
}

type Changes = Record<string, string | undefined>;

function change(changes: Changes, isStep: boolean): void {
  const place = parsePlace(location.hash);
  const params: Record<string, string> = {};
  for (const [name, value] of Object.entries({ ...place.params, ...changes }))
    if (value !== undefined && value !== "") params[name] = value;
  goTo({ ...place, params }, isStep);
}

/** Changes some parameters of the place; undefined and "" take one away. */
export const changeParams = (changes: Changes): void => change(changes, false);
/** The same as a step, from which the browser goes back. */
export const stepTo = (changes: Changes): void => change(changes, true);

export function usePlace(): Place {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    const events = [CHANGED, "hashchange", "popstate"];
    events.forEach((name) => addEventListener(name, follow));
    return () => events.forEach((name) => removeEventListener(name, follow));
  }, []);
  return parsePlace(hash);
}
