// SPDX-License-Identifier: Apache-2.0
// One map with everything around it.
import { useRef } from "preact/hooks";
import { useRoom } from "../lib/hooks.ts";
import { changeParams } from "../lib/route.ts";
import { counted, number } from "../lib/text.ts";
import { SAMPLE_ID } from "../sources/sample.ts";
import { length, type Grid, type Info, type MapSource } from "../sources/source.ts";
import { Failure } from "../ui/controls.tsx";
import { BESIDE, BigMap, SIDE, sideIn, type CellPlace } from "./big_map.tsx";
import type { CaptureFeed } from "./capture_list.tsx";
import { ColourBar } from "./colour_bar.tsx";
import { headName, headline, legendText, stageName } from "./describe.ts";
import { countOdd, type View } from "./drawing.ts";
import { ComparePanel } from "./compare.tsx";
import { EXPORT_MENU, ExportMenu } from "./export_menu.tsx";
import { CellPanel, HeadPanel } from "./inspector.tsx";
import { Lines } from "./lines.tsx";
import { useGrid, useOverview, useSource } from "./loading.ts";
import { MaskEditor } from "./mask_editor.tsx";
import { MINI_SIDE, Minimap } from "./minimap.tsx";
import { useOther, type Other } from "./other.ts";
import { PicturePanel } from "./picture_grid.tsx";
import { largest, type Scale } from "./scale.ts";
import { readState, scaleOf, viewParams, zoomed, type MapState } from "./state.ts";
import { TableOfCells } from "./table_of_cells.tsx";
import { TOKEN_SEARCH, TokenSearch } from "./token_search.tsx";
import { Thumbnails } from "./thumbnails.tsx";
import { Toolbar, showHead, showScale, showStage } from "./toolbar.tsx";

export interface MapViewProps {
  source: MapSource;
  state: MapState;
  feed: CaptureFeed;
  options?: string; // that replace those of a held request
}

const pin = ([row, col]: CellPlace): void => changeParams({ cell: `${row},${col}` });

export function MapView({ source, state, feed, options }: MapViewProps) {
  const { info } = source;
  const whole: View = { rows: [0, info.queries], cols: [state.skip, info.keys] };
  const { value: grid, error, isBusy } = useGrid(source, state, state.view, SIDE);
  const isSeen = useSeen(source, !isBusy && (grid !== undefined || error !== undefined));
  const scale = scaleOf(state, grid ? largest(grid) : 1);
  const showView = (view: View) => changeParams(viewParams(view, whole));
  const other = useOther(source, state, grid, options);
  const name = `${stageName(state.stage)} of ${headName(state.head)}, ${info.queries} queries by ${info.keys} keys`;
  return (
    <>
      <div class="stage">
        <Heading {...{ source, state }} />
        <Layers {...{ source, state, feed, isSeen }} />
        <Toolbar {...{ info, state, scale }} />
        {error && <Failure error={error} />}
        {grid && <Plot {...{ source, state, grid, other, whole, scale, name, isBusy, showView }} />}
        {grid && <Below {...{ source, state, feed, grid, other, whole, scale, name, showView }} />}
      </div>
      <aside class="inspector">
        <CellPanel {...{ source, state }} />
        <HeadPanel {...{ source, state, isSeen }} />
        <MaskEditor key={info.id} info={info} isReplaced={options !== undefined} />
        <PicturePanel {...{ source, state }} />
      </aside>
    </>
  );
}

/** Whether the large map of this source has been there: what else takes a pass over all of a long map
 *  waits for it. */
function useSeen(source: MapSource, isThere: boolean): boolean {
  const seen = useRef<MapSource | null>(null);
  if (isThere) seen.current = source;
  return seen.current === source;
}

interface PlotProps {
  source: MapSource;
  state: MapState;
  grid: Grid;
  other: Other;
  whole: View;
  scale: Scale;
  name: string;
  showView: (view: View) => void;
}

/** The map or its lines, another one beside it, and what finds one's way in them. */
function Plot(props: PlotProps & { isBusy: boolean }) {
  const { source, state, grid, whole, scale, isBusy, showView } = props;
  const { info } = source;
  const { view } = state;
  const isZoomed = length(view.rows) < length(whole.rows) || length(view.cols) < length(whole.cols);
  const seen = { source, state, whole, grid: isBusy ? undefined : grid };
  const overview = useOverview(seen, isZoomed, MINI_SIDE);
  const [place, room] = useRoom();
  const isPair = state.compare?.mode === "side";
  return (
    <div class={`plot${isPair ? " pair" : ""}${isBusy ? " busy" : ""}`} ref={place}>
      {room > 0 && <Drawn {...props} side={sideIn(room, isPair)} isPair={isPair} />}
      <div class="finders">
        {overview && isZoomed && (
          <Minimap grid={overview} {...{ view, whole, scale }} onView={showView} />
        )}
        <ZoomButtons {...{ state, whole }} onView={showView} />
        <TokenSearch {...{ info, state }} onPin={pin} />
      </div>
    </div>
  );
}

/** One map, or a pair that is zoomed, coloured and pinned alike. */
function Drawn(props: PlotProps & { side: number; isPair: boolean }) {
  const { source, state, grid, other, whole, scale, name, side, isPair, showView } = props;
  const { info } = source;
  const one = (shown: { info: Info; grid: Grid; name: string }) =>
    state.isLines ? (
      <Lines {...shown} room={side + BESIDE} pinned={state.pinned} onPin={pin} />
    ) : (
      <BigMap
        {...{ ...shown, whole, scale, side }}
        view={state.view}
        pinned={state.pinned}
        isMaskOnly={state.stage === "mask"}
        onView={showView}
        onPin={pin}
        onKey={(key) => act(key, state, source)}
      />
    );
  if (!isPair) return one({ info, grid, name });
  return (
    <>
      <div class="half">
        <p>
          <strong>A</strong> {info.name || info.id}, {headName(state.head)}
        </p>
        {one({ info, grid, name })}
      </div>
      {other.map && (
        <div class="half">
          <p>
            <strong>B</strong> {other.map.name}
          </p>
          {one(other.map)}
        </div>
      )}
    </>
  );
}

/** What the colours mean, the map as files and as a table, another map. */
function Below(props: PlotProps & Pick<MapViewProps, "feed">) {
  const { source, state, grid, other, scale, name, showView } = props;
  const { info } = source;
  const legend = legendText(state, scale, grid);
  const title = `${info.name || info.id}: ${name}`;
  const beside = state.compare?.mode === "side" && other.map ? countOdd(other.map.grid) : 0;
  return (
    <>
      <ColourBar scale={scale} odd={countOdd(grid) + beside} text={legend} />
      <ExportMenu picture={{ info, grid, scale, view: state.view, title, legend }} />
      <TableOfCells {...{ info, grid }} />
      <ComparePanel {...props} onView={showView} onPin={pin} />
    </>
  );
}

/** Heads of this map, and of the other layers of its run. */
function Layers({ source, state, feed, isSeen }: MapViewProps & { isSeen: boolean }) {
  const { info } = source;
  const others = feed.captures.filter(
    ({ id, run, queries, keys }) =>
      info.run &&
      run === info.run &&
      id !== info.id &&
      queries === info.queries &&
      keys === info.keys,
  );
  const shown = [
    ...others.map(({ id, layer }) => ({ id, layer })),
    { id: info.id, layer: info.layer },
  ]
    .sort((a, b) => Number(a.layer) - Number(b.layer))
    .slice(0, 48);
  return (
    <>
      {shown.map(({ id, layer }) =>
        id === info.id ? (
          <Thumbnails
            key={id}
            {...{ source, state, isSeen }}
            isChosen
            onChoose={showHead}
            name={others.length > 0 ? `layer ${layer}` : undefined}
          />
        ) : (
          <Layer key={id} {...{ id, state, isSeen }} name={`layer ${layer}`} />
        ),
      )}
    </>
  );
}

function Layer({ id, ...shown }: { id: string; state: MapState; name: string; isSeen: boolean }) {
  const { value: source } = useSource(id);
  return source ? (
    <Thumbnails
      {...{ source, ...shown }}
      isChosen={false}
      onChoose={(head) => changeParams({ id, head: String(head) })}
    />
  ) : null;
}

function Heading({ source, state }: { source: MapSource; state: MapState }) {
  const { info } = source;
  const isWhole = info.queries <= 64 && info.keys <= 64;
  const weights: MapState = { ...readState({}, info), head: state.head, batch: state.batch };
  const { value: grid } = useGrid(isWhole ? source : undefined, weights, weights.view, 64);
  const facts = [
    `${counted(info.queries, "query", "queries")} × ${counted(info.keys, "key")}`,
    counted(info.heads, "head") +
      (info.kvHeads === info.heads ? "" : ` on ${counted(info.kvHeads, "key/value head")}`),
    `d = ${info.headDim}`,
    info.scale !== null && `scale ${number(info.scale)}`,
    `mask: ${info.mask || "none"}`,
    info.isApproximate && "kept in a smaller type: cells may differ from the answer's",
  ].filter(Boolean);
  return (
    <header>
      <h1>{info.name || info.id}</h1>
      <p class="facts">{facts.join(" · ")}</p>
      {grid && <p class="headline">{headline(info, grid)}</p>}
      {info.id === SAMPLE_ID && (
        <p class="ways">
          <a class="button" href="#send">
            Send your own
          </a>{" "}
          <a class="button" href="#lab">
            Why √d?
          </a>{" "}
          <a class="button" href="#latency">
            Latency
          </a>
        </p>
      )}
    </header>
  );
}

/** What a key means while the map has the focus. */
function act(key: string, state: MapState, { info }: MapSource): boolean {
  const stages = info.stages.filter((stage) => stage !== "capped" || info.softcap);
  const next = stages[(stages.indexOf(state.stage as never) + 1) % stages.length];
  const step = (by: number) =>
    typeof state.head === "number" ? (state.head + by + info.heads) % info.heads : 0;
  const actions: Record<string, () => void> = {
    "[": () => showHead(step(-1)),
    "]": () => showHead(step(1)),
    s: () => showStage(next),
    l: () => showScale(!state.isLog),
    m: () => showStage(state.stage === "mask" ? "weights" : "mask"),
    c: () =>
      changeParams(
        state.compare
          ? { with: undefined, withhead: undefined, compare: undefined }
          : { with: info.id, withhead: "mean" },
      ),
    e: () => openDetails(EXPORT_MENU),
    "/": () => document.getElementById(TOKEN_SEARCH)?.focus(),
    "?": () => {
      location.hash = "#help";
    },
  };
  actions[key]?.();
  return key in actions;
}

function openDetails(id: string): void {
  const details = document.getElementById(id) as HTMLDetailsElement | null;
  if (details) details.open = true;
  details?.querySelector("button")?.focus();
}

function ZoomButtons({
  state,
  whole,
  onView,
}: {
  state: MapState;
  whole: View;
  onView: (view: View) => void;
}) {
  const centre = [state.view.rows, state.view.cols].map(([a, b]) => (a + b) / 2) as [
    number,
    number,
  ];
  const at = state.pinned ?? centre;
  return (
    <div class="zoom" role="group" aria-label="Zoom">
      <button
        type="button"
        aria-label="Zoom in"
        onClick={() => onView(zoomed(state.view, 2, at, whole))}
      >
        +
      </button>
      <button
        type="button"
        aria-label="Zoom out"
        onClick={() => onView(zoomed(state.view, 0.5, at, whole))}
      >
        −
      </button>
      <button type="button" aria-label="Show all" onClick={() => onView(whole)}>
        ⤢
      </button>
    </div>
  );
}
