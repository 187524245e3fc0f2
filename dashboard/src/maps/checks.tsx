// SPDX-License-Identifier: Apache-2.0
// Whether a head is what attention has to be, and whether it looks healthy, in sentences.
import { useState } from "preact/hooks";
import { useAsync } from "../lib/hooks.ts";
import { counted, number, percent } from "../lib/text.ts";
import { isLarge, type MapSource, type Stats } from "../sources/source.ts";
import { Failure } from "../ui/controls.tsx";
import type { MapState } from "./state.ts";

export interface Check {
  isFine: boolean;
  text: string;
}

const SUM_TOLERANCE = 1e-4; // sums of many floats, each rounded
const MANY_SATURATED = 0.5; // of rows, and of the weight that one key receives

/** What the statistics of a head say. */
export function checksOf(stats: Stats, head: number): Check[] {
  const of = (name: string): number => stats[name]?.[head] ?? NaN;
  const [empty, saturated, share] = [of("empty_rows"), of("saturated_share"), of("top_key_share")];
  const isFinite = Number.isFinite(of("largest_score")) && Number.isFinite(of("confidence"));
  return [
    {
      isFine: isFinite,
      text: isFinite
        ? "All scores and weights are finite."
        : "Some scores or weights are not finite.",
    },
    {
      isFine: empty === 0,
      text:
        empty === 0
          ? "Every query sees some key."
          : `${counted(empty, "query sees", "queries see")} no key at all.`,
    },
    {
      isFine: !(saturated > MANY_SATURATED),
      text: `${percent(saturated)} of rows are saturated.`,
    },
    ...(Number.isFinite(share)
      ? [
          {
            isFine: share <= MANY_SATURATED,
            text: `Key ${number(of("top_key"))} receives ${percent(share)} of all weight.`,
          },
        ]
      : []),
  ];
}

/** What rows add up to; a sink takes a part of each away. */
export function checkOfSums(sums: readonly number[], stats: Stats, head: number): Check {
  const [empty, unassigned] = [stats.empty_rows?.[head] ?? 0, stats.unassigned_mass?.[head] ?? 0];
  const worst = sums
    .filter((sum) => !(empty > 0 && sum < 1))
    .reduce((most, sum) => Math.max(most, Math.abs(sum - 1)), 0); // NaN stays
  if (unassigned > SUM_TOLERANCE)
    return { isFine: true, text: `A sink takes ${percent(unassigned)}, and rows the rest.` };
  return {
    isFine: worst <= SUM_TOLERANCE,
    text:
      worst <= SUM_TOLERANCE
        ? `Rows add up to 1, within ${number(worst, 2)}.`
        : `Some rows do not add up to 1: one is ${Number.isNaN(worst) ? "no number" : `off by ${number(worst)}`}.`,
  };
}

interface ChecksProps {
  source: MapSource;
  state: MapState;
  stats: Stats;
  head: number;
}

export function Checks({ source, state, stats, head }: ChecksProps) {
  const [wanted, setWanted] = useState<MapSource>();
  const isAsked = !isLarge(source.info) || wanted === source;
  const { value: sums, error } = useAsync(
    isAsked ? (signal) => source.rowSums(state.batch, head, signal) : undefined,
    [source, isAsked, state.batch, head],
  );
  const checks = [...(sums ? [checkOfSums(sums, stats, head)] : []), ...checksOf(stats, head)];
  return (
    <>
      <h3>Checks</h3>
      {error && <Failure error={error} />}
      <ul class="checks">
        {checks.map(({ isFine, text }) => (
          <li key={text}>
            <span aria-hidden="true">{isFine ? "✓" : "⚠"}</span>
            <span class="unseen">{isFine ? "Fine: " : "Look here: "}</span> {text}
          </li>
        ))}
      </ul>
      {!isAsked && (
        <button type="button" onClick={() => setWanted(source)}>
          Add up all rows
        </button>
      )}
      {checks.some(({ isFine }) => !isFine) && (
        <p class="hint">
          <a href="#help">What that may mean</a>
        </p>
      )}
    </>
  );
}
