// SPDX-License-Identifier: Apache-2.0
// The numbers behind the picture: one cell, the keys that its query attends to, the head.
import { useAsync } from "../lib/hooks.ts";
import { named, number, percent } from "../lib/text.ts";
import type { Cell, Info, MapSource, Stats } from "../sources/source.ts";
import { Facts, Failure, Panel, Table } from "../ui/controls.tsx";
import { Checks } from "./checks.tsx";
import type { MapState } from "./state.ts";

const FORMULA: readonly (readonly [keyof Cell, string])[] = [
  ["raw", "q·k"],
  ["scaled", "× scale"],
  ["capped", "after the softcap"],
  ["masked", "after bias and mask"],
];

const ROW: readonly (readonly [keyof Cell["row"], string])[] = [
  ["max", "row's largest score"],
  ["sum", "row's Σ exp"],
  ["lse", "row's log-sum-exp"],
];

function CellNumbers({ cell, info, state }: { cell: Cell; info: Info; state: MapState }) {
  const [row, col] = state.pinned!;
  return (
    <>
      <p>
        {named("query", row, info.qTokens)} → {named("key", col, info.kTokens)}
      </p>
      <Facts
        facts={[
          ...FORMULA.map(([name, text]) => {
            const value = cell[name];
            const isShown = name !== "capped" || info.softcap !== null;
            return isShown && typeof value === "number" && ([text, number(value, 6)] as const);
          }),
          [
            "weight",
            <strong>{cell.hidden ? "0, hidden by the mask" : number(cell.weight, 6)}</strong>,
          ],
          ...ROW.map(([name, text]) => {
            const value = cell.row[name];
            return typeof value === "number" && ([text, number(value, 6)] as const);
          }),
        ]}
      />
      <h3>Keys with most weight</h3>
      {cell.top.length === 0 ? (
        <p class="hint">This query sees no key.</p>
      ) : (
        <ol class="topkeys">
          {cell.top.map(({ key, weight }) => (
            <li key={key}>
              <span>{named("key", key, info.kTokens)}</span>
              <meter min={0} max={1} value={weight} aria-label={`weight of key ${key}`} />
              <span>{number(weight)}</span>
            </li>
          ))}
        </ol>
      )}
    </>
  );
}

export function CellPanel({ source, state }: { source: MapSource; state: MapState }) {
  const { pinned, batch, head } = state;
  const canAsk = pinned && typeof head === "number";
  const { value: cell, error } = useAsync(
    canAsk ? (signal) => source.cell(batch, head, pinned[0], pinned[1], signal) : undefined,
    [source, batch, head, pinned?.join()],
  );
  return (
    <Panel title="Cell">
      {!pinned && <p class="hint">Click a cell, or press Enter on it.</p>}
      {pinned && !canAsk && <p class="hint">Choose one head to see how a weight comes about.</p>}
      {error && <Failure error={error} />}
      {canAsk && cell && <CellNumbers {...{ cell, state }} info={source.info} />}
    </Panel>
  );
}

type Statistic = readonly [name: string, text: string, show: (value: number) => string];
const STATISTICS: readonly Statistic[] = [
  ["normalized_entropy", "entropy of rows (1: all keys alike)", number],
  ["confidence", "largest weight of a row, mean", number],
  ["saturated_share", "rows with a weight above 0.99", percent],
  ["gradient_health", "1 − Σp², the softmax gradient's trace", number],
  ["first_key_share", "weight of key 0", percent],
  ["top_key", "key that receives most", number],
  ["top_key_share", "what it receives", percent],
  ["unassigned_mass", "taken by a sink", percent],
  ["mean_distance", "distance to keys, weighted", number],
  ["largest_score", "largest scaled score", number],
  ["score_variance", "variance of scaled scores", number],
  ["empty_rows", "rows that see no key", number],
];

interface HeadPanelProps {
  source: MapSource;
  state: MapState;
  isSeen: boolean; // the large map is there, and all of it may be gone through again
}

export function HeadPanel({ source, state, isSeen }: HeadPanelProps) {
  const { value: stats, error } = useAsync(
    isSeen ? (signal) => source.stats(state.batch, signal) : undefined,
    [source, isSeen, state.batch],
  );
  const { head } = state;
  return (
    <Panel title="Heads in numbers">
      {error && <Failure error={error} />}
      {stats &&
        (typeof head === "number" ? (
          <>
            <OneHead {...{ stats, head }} />
            <Checks {...{ source, state, stats, head }} />
          </>
        ) : (
          <p class="hint">Choose one head, or see them all below.</p>
        ))}
      {stats && (
        <details>
          <summary>All heads as a table</summary>
          <AllHeads stats={stats} />
        </details>
      )}
    </Panel>
  );
}

function OneHead({ stats, head }: { stats: Stats; head: number }) {
  return (
    <Facts
      facts={STATISTICS.map(
        ([name, text, show]) => stats[name] && ([text, show(stats[name][head])] as const),
      )}
    />
  );
}

function AllHeads({ stats }: { stats: Stats }) {
  const known = STATISTICS.filter(([name]) => stats[name]);
  const heads = known.length > 0 ? stats[known[0][0]].length : 0;
  return (
    <Table
      caption="Statistics per head"
      head={["head", ...known.map(([, text]) => text)]}
      rows={Array.from({ length: heads }, (_, head) => [
        head,
        ...known.map(([name, , show]) => show(stats[name][head])),
      ])}
    />
  );
}
