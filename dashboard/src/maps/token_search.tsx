// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import type { Info } from "../sources/source.ts";
import type { CellPlace } from "./big_map.tsx";
import type { MapState } from "./state.ts";

export const TOKEN_SEARCH = "token-search";

/** The first key behind `from`, and then from the start, whose token has the text; −1: none has. */
export function findToken(tokens: readonly string[], text: string, from: number): number {
  const wanted = text.toLowerCase();
  for (let i = 1; i <= tokens.length; i++) {
    const at = (from + i) % tokens.length;
    if (tokens[at].toLowerCase().includes(wanted)) return at;
  }
  return -1;
}

export function TokenSearch({
  info,
  state,
  onPin,
}: {
  info: Info;
  state: MapState;
  onPin: (cell: CellPlace) => void;
}) {
  const [notice, setNotice] = useState("");
  const tokens = info.kTokens;
  if (!tokens) return null;
  const find = (event: Event) => {
    event.preventDefault();
    const input = (event.currentTarget as HTMLFormElement).elements[0] as HTMLInputElement;
    const key = input.value ? findToken(tokens, input.value, state.pinned?.[1] ?? -1) : -1;
    setNotice(key < 0 ? "No key has it." : `Key ${key} is pinned.`);
    if (key >= 0) onPin([state.pinned?.[0] ?? state.view.rows[1] - 1, key]);
  };
  return (
    <form class="search" onSubmit={find}>
      <label class="field">
        <span>Find a token among the keys</span>
        <input id={TOKEN_SEARCH} type="search" />
      </label>
      <button type="submit">Find</button>
      <span role="status">{notice}</span>
    </form>
  );
}
