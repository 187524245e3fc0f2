// SPDX-License-Identifier: Apache-2.0
// Another map over the same part: side by side, A − B, or |A − B|.
import { useState } from "preact/hooks";
import { changeParams } from "../lib/route.ts";
import { number } from "../lib/text.ts";
import { compareCapture } from "../sources/capture_source.ts";
import { isHeld, useHeld } from "../sources/held.ts";
import {
  holdReference,
  isReference,
  referenceOf,
  referencesFor,
} from "../sources/reference_source.ts";
import {
  Kind,
  binRange,
  type Comparison,
  type Grid,
  type Info,
  type MapSource,
} from "../sources/source.ts";
import { Choice, Facts, Failure, Panel, Segments } from "../ui/controls.tsx";
import { BigMap, type CellPlace } from "./big_map.tsx";
import type { CaptureFeed } from "./capture_list.tsx";
import { ColourBar } from "./colour_bar.tsx";
import { headName, legendText } from "./describe.ts";
import { countOdd, type View } from "./drawing.ts";
import { useGrid, useSource } from "./loading.ts";
import { around, largest, type Scale } from "./scale.ts";
import { readHead, type CompareMode, type MapState } from "./state.ts";

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
  scale: Scale;
  feed: CaptureFeed;
  options?: string;
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

function Other(props: CompareProps & { compare: NonNullable<MapState["compare"]> }) {
  const {
    source: { info },
    state,
    grid,
    whole,
    compare,
    onView,
    onPin,
  } = props;
  const reference = referenceOf(compare.id);
  const opened = useSource(
    isReference(compare.id) ? info.id : compare.id,
    compare.id === info.id ? props.options : undefined,
  );
  const source = isReference(compare.id) ? reference : opened.value;
  const isSameShape =
    source && source.info.queries === info.queries && source.info.keys === info.keys;
  const head =
    source && typeof compare.head === "number"
      ? readHead(String(compare.head), source.info.heads)
      : compare.head;
  const { value: other, error } = useGrid(
    isSameShape ? source : undefined,
    { ...state, head },
    state.view,
    Math.max(grid.height, grid.width),
  );
  if (opened.error || error) return <Failure error={(opened.error ?? error)!} />;
  if (isReference(compare.id) && !reference)
    return <p class="hint">This reference was in a file: choose it again.</p>;
  if (source && !isSameShape)
    return (
      <p class="hint">
        {source.info.name} has {source.info.queries} × {source.info.keys} cells; maps of one shape
        can be compared.
      </p>
    );
  if (!other || !source || other.values.length !== grid.values.length)
    return <p class="hint">Asking the daemon…</p>;
  const difference = subtract(grid, other, compare.mode === "distance");
  const isSide = compare.mode === "side";
  const shown = isSide ? other : difference;
  const most = largest(difference);
  const scale = isSide
    ? props.scale
    : compare.mode === "difference"
      ? around(most)
      : { low: 0, high: most || 1, isLog: false, isDiverging: false };
  const { cell, distance } = worstOf(difference);
  const name = isSide
    ? `${source.info.name}, ${headName(head)}`
    : `${compare.mode === "distance" ? "|A − B|" : "A − B"} against ${source.info.name}, ${headName(head)}`;
  return (
    <>
      <p>
        Largest |A − B| of what is seen: <strong>{number(distance, 6)}</strong> at query {cell[0]},
        key {cell[1]}.{" "}
        <button type="button" onClick={() => onPin(cell)}>
          Pin it
        </button>
      </p>
      <BigMap
        {...{ whole, scale, name, onView, onPin, info: source.info }}
        grid={shown}
        view={state.view}
        pinned={state.pinned}
        isMaskOnly={isSide && state.stage === "mask"}
      />
      <ColourBar
        scale={scale}
        odd={countOdd(shown)}
        text={isSide ? legendText(state, scale, shown) : `${name}; range fitted to this view`}
      />
    </>
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
