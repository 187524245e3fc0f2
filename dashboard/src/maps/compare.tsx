// SPDX-License-Identifier: Apache-2.0
// Another map over the same part: side by side, A − B, or |A − B|.
import { useState } from "preact/hooks";
import { useRoom } from "../lib/hooks.ts";
import { changeParams } from "../lib/route.ts";
import { number } from "../lib/text.ts";
import { compareCapture } from "../sources/capture_source.ts";
import { isHeld, useHeld } from "../sources/held.ts";
import { holdReference, referencesFor } from "../sources/reference_source.ts";
import {
  Kind,
  binRange,
  type Comparison,
  type Grid,
  type Info,
  type MapSource,
} from "../sources/source.ts";
import { Choice, Facts, Failure, Panel, Segments } from "../ui/controls.tsx";
import { BigMap, sideIn, type CellPlace } from "./big_map.tsx";
import type { CaptureFeed } from "./capture_list.tsx";
import { ColourBar } from "./colour_bar.tsx";
import { countOdd, type View } from "./drawing.ts";
import type { Other as OtherState, OtherMap } from "./other.ts";
import { around, largest } from "./scale.ts";
import type { CompareMode, MapState } from "./state.ts";

/** A − B or its size, bin by bin; what one of them hides counts as zero there. */
export function subtract(a: Grid, b: Grid, isDistance: boolean): Grid {
  const values = new Float32Array(a.values.length),
    kinds = new Uint8Array(a.values.length);
  const seen = (grid: Grid, at: number) => (grid.kinds[at] === Kind.Hidden ? 0 : grid.values[at]);
  values.forEach((_, at) => {
    const difference = seen(a, at) - seen(b, at);
    values[at] = isDistance ? Math.abs(difference) : difference;
    kinds[at] =
      a.kinds[at] === Kind.Hidden && b.kinds[at] === Kind.Hidden
        ? Kind.Hidden
        : Number.isNaN(difference)
          ? Kind.NotANumber
          : Number.isFinite(difference)
            ? Kind.Value
            : Kind.Infinite;
  });
  return { ...a, values, kinds, isExact: a.isExact && b.isExact };
}

/** The first cell of the bin that differs most. */
export function worstOf(grid: Grid): { cell: CellPlace; distance: number } {
  let worst = 0;
  grid.values.forEach((value, at) => {
    if (grid.kinds[at] === Kind.Value && Math.abs(value) > Math.abs(grid.values[worst])) worst = at;
  });
  const row = binRange(Math.floor(worst / grid.width), grid.height, grid.rows)[0];
  const col = binRange(worst % grid.width, grid.width, grid.cols)[0];
  return { cell: [row, col], distance: Math.abs(grid.values[worst]) };
}

interface CompareProps {
  source: MapSource;
  state: MapState;
  grid: Grid;
  whole: View;
  feed: CaptureFeed;
  other: OtherState;
  onView: (view: View) => void;
  onPin: (cell: CellPlace) => void;
}

const OFF = { with: undefined, withhead: undefined, compare: undefined };

export function ComparePanel(props: CompareProps) {
  const {
    source: { info },
    state,
    feed,
  } = props;
  const requests = useHeld();
  const fits = feed.captures.filter(
    ({ id, queries, keys }) => id !== info.id && queries === info.queries && keys === info.keys,
  );
  const others: (readonly [string, string])[] = [
    [info.id, "this map, another head"],
    ...[...requests, ...referencesFor(info)]
      .filter(({ id }) => id !== info.id)
      .map(({ id, name }) => [id, name] as const),
    ...fits.map(({ id, name }) => [id, name || id] as const),
  ];
  const { compare } = state;
  return (
    <Panel title="Compare" class="compare">
      <div class="toolbar">
        <Choice
          label="With"
          value={compare?.id ?? ""}
          options={[["", "nothing"], ...others]}
          onChange={(id) => changeParams(id ? { with: id, withhead: String(state.head) } : OFF)}
        />
        {compare && (
          <Choice
            label="Its head"
            value={String(compare.head)}
            options={[
              ...Array.from(
                { length: info.heads },
                (_, head) => [String(head), `head ${head}`] as const,
              ),
              ["mean", "mean of heads"],
            ]}
            onChange={(withhead) => changeParams({ withhead })}
          />
        )}
        {compare && (
          <Segments<CompareMode>
            label="Form"
            value={compare.mode}
            options={[
              ["side", "side by side"],
              ["difference", "A − B"],
              ["distance", "|A − B|"],
            ]}
            onChange={(mode) => changeParams({ compare: mode })}
          />
        )}
      </div>
      {compare && <Other {...props} compare={compare} />}
      {!isHeld(info.id) && <WholeComparison {...{ info, compare }} onPin={props.onPin} />}
    </Panel>
  );
}

/** What is to be said of the other map, and the difference where that is drawn. */
function Other(props: CompareProps & { compare: NonNullable<MapState["compare"]> }) {
  const { grid, compare, onPin } = props;
  const { map, error, notice } = props.other;
  if (error) return <Failure error={error} />;
  if (!map) return <p class="hint">{notice ?? "Asking the daemon…"}</p>;
  const difference = subtract(grid, map.grid, compare.mode === "distance");
  const { cell, distance } = worstOf(difference);
  return (
    <>
      <p>
        Largest |A − B| of what is seen: <strong>{number(distance, 6)}</strong> at query {cell[0]},
        key {cell[1]}.{" "}
        <button type="button" onClick={() => onPin(cell)}>
          Pin it
        </button>
      </p>
      {compare.mode === "side" ? (
        <p class="hint">Both maps stand above, zoomed and coloured alike.</p>
      ) : (
        <Difference {...{ ...props, map, difference }} mode={compare.mode} />
      )}
    </>
  );
}

function Difference(
  props: CompareProps & { map: OtherMap; difference: Grid; mode: "difference" | "distance" },
) {
  const { state, whole, map, difference, mode, onView, onPin } = props;
  const [place, room] = useRoom();
  const most = largest(difference);
  const scale =
    mode === "difference"
      ? around(most)
      : { low: 0, high: most || 1, isLog: false, isDiverging: false };
  const name = `${mode === "distance" ? "|A − B|" : "A − B"} against ${map.name}`;
  return (
    <div ref={place}>
      {room > 0 && (
        <BigMap
          {...{ whole, scale, name, onView, onPin, info: map.info }}
          side={sideIn(room)}
          grid={difference}
          view={state.view}
          pinned={state.pinned}
        />
      )}
      <ColourBar
        scale={scale}
        odd={countOdd(difference)}
        text={`${name}; range fitted to this view`}
      />
    </div>
  );
}

/** The daemon compares every cell of a capture with another one, or with a reference in a file. */
function WholeComparison({
  info,
  compare,
  onPin,
}: {
  info: Info;
  compare?: MapState["compare"];
  onPin: (cell: CellPlace) => void;
}) {
  const [result, setResult] = useState<Comparison>();
  const [error, setError] = useState<Error>();
  const run = (reference: string | Blob) =>
    compareCapture(info.id, reference).then((answer) => {
      setResult(answer);
      setError(undefined);
      return answer;
    }, setError);
  /** The difference is opened at the first cell that is beyond the tolerance. */
  const take = async (file: File) => {
    const [id, answer] = await Promise.all([holdReference(file, info), run(file)]);
    if (answer && id)
      changeParams({ with: id, withhead: undefined, compare: "difference", stage: undefined });
    if (answer?.first_failing) show(answer.first_failing);
  };
  const show = (place: readonly number[]) => {
    changeParams({ batch: String(place[0]), head: String(place[1]) });
    onPin([place[2], place[3]]);
  };
  const placeOf = (place: readonly number[] | null) =>
    place && (
      <button type="button" onClick={() => show(place)}>
        [{place.join(", ")}]
      </button>
    );
  return (
    <div>
      <div class="row">
        {compare && compare.id !== info.id && !isHeld(compare.id) && (
          <button type="button" onClick={() => run(compare.id)}>
            Compare every cell
          </button>
        )}
        <label class="field">
          <span>A reference of all weights, .npy or .safetensors</span>
          <input
            type="file"
            accept=".npy,.safetensors"
            onChange={(event) => {
              const file = event.currentTarget.files?.[0];
              if (file) void take(file);
            }}
          />
        </label>
      </div>
      {error && <Failure error={error} />}
      {result && (
        <Facts
          facts={[
            ["equal within tolerance", result.allclose ? "yes" : "no"],
            [
              "largest |A − B|",
              <>
                {number(result.max_abs, 6)} {placeOf(result.max_at)}
              </>,
            ],
            ["cells beyond the tolerance", number(result.failing, 12)],
            ["the first of them", placeOf(result.first_failing) ?? "none"],
            ["tolerance", `${number(result.atol)} + ${number(result.rtol)} · |B|`],
          ]}
        />
      )}
    </div>
  );
}
