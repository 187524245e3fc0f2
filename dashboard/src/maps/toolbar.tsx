// SPDX-License-Identifier: Apache-2.0
// What of the map is shown, and in which colours. All of it stands in the permalink.
import { changeParams } from "../lib/route.ts";
import type { Info } from "../sources/source.ts";
import { Check, Choice, NumberField, Segments } from "../ui/controls.tsx";
import { FEW_KEYS, type MapState, type Shown } from "./state.ts";
import type { Scale } from "./scale.ts";

const STAGE_NAMES: readonly (readonly [Shown, string])[] = [
  ["raw", "raw q·k"],
  ["scaled", "scaled"],
  ["capped", "capped"],
  ["masked", "masked score"],
  ["weights", "weights"],
  ["mask", "mask"],
];

export const showStage = (stage: Shown): void =>
  changeParams({ stage: stage === "weights" ? undefined : stage, range: undefined });
export const showScale = (isLog: boolean): void =>
  changeParams({ scale: isLog ? "log" : "linear", range: undefined });
export const showHead = (head: number | string): void => changeParams({ head: String(head) });

const STAGES_WITHOUT_CAP = STAGE_NAMES.filter(([stage]) => stage !== "capped");

export function Toolbar({ info, state, scale }: { info: Info; state: MapState; scale: Scale }) {
  const heads: (readonly [string, string])[] = [
    ...Array.from({ length: info.heads }, (_, head) => [String(head), `head ${head}`] as const),
    ["mean", "mean of heads"],
    ["max", "largest of heads"],
  ];
  return (
    <div class="toolbar" role="toolbar" aria-label="What is shown">
      <Segments
        label="Stage"
        value={state.stage}
        onChange={showStage}
        options={info.softcap ? STAGE_NAMES : STAGES_WITHOUT_CAP}
      />
      <Choice label="Head" value={String(state.head)} options={heads} onChange={showHead} />
      {info.batch > 1 && (
        <NumberField
          label="Batch item"
          value={state.batch}
          min={0}
          max={info.batch - 1}
          onChange={(batch) => changeParams({ batch: String(batch) })}
        />
      )}
      {state.stage === "weights" && (
        <Segments
          label="Scale"
          value={state.isLog ? "log" : "linear"}
          options={[
            ["linear", "linear"],
            ["log", "log"],
          ]}
          onChange={(kind) => showScale(kind === "log")}
        />
      )}
      <Segments
        label="Pooling"
        value={state.pooling}
        options={[
          ["max", "max"],
          ["mass", "mass"],
        ]}
        onChange={(op) => changeParams({ op })}
      />
      <NumberField
        label="Ignore first keys"
        value={state.skip}
        min={0}
        max={Math.max(0, info.keys - 1)}
        onChange={(skip) =>
          changeParams({ skip: skip ? String(skip) : undefined, cols: undefined })
        }
      />
      <Check
        label="Lock range"
        isOn={state.fixed !== undefined}
        onChange={(isOn) =>
          changeParams({ range: isOn ? `${scale.low}:${scale.high}` : undefined })
        }
      />
      {state.fixed && <RangeFields fixed={state.fixed} />}
      {state.stage === "weights" && Math.max(info.queries, info.keys) <= FEW_KEYS && (
        <Segments
          label="Form"
          value={state.isLines ? "lines" : "map"}
          options={[
            ["map", "map"],
            ["lines", "lines"],
          ]}
          onChange={(view) => changeParams({ view: view === "lines" ? view : undefined })}
        />
      )}
    </div>
  );
}

function RangeFields({ fixed: [low, high] }: { fixed: readonly [number, number] }) {
  const set = (ends: readonly [number, number]) => {
    if (ends[0] < ends[1]) changeParams({ range: ends.join(":") });
  };
  return (
    <>
      <label class="field">
        <span>from</span>
        <input
          type="number"
          step="any"
          value={low}
          onChange={(event) => set([Number(event.currentTarget.value), high])}
        />
      </label>
      <label class="field">
        <span>to</span>
        <input
          type="number"
          step="any"
          value={high}
          onChange={(event) => set([low, Number(event.currentTarget.value)])}
        />
      </label>
    </>
  );
}
