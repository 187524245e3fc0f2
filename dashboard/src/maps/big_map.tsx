// SPDX-License-Identifier: Apache-2.0
// The one large map: it is moved, zoomed and asked for cells by pointer and by key.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { useSettled } from "../lib/hooks.ts";
import { length, type Grid, type Info, type Range } from "../sources/source.ts";
import { Axes, LEFT, TOP } from "./axes.tsx";
import { cellText } from "./describe.ts";
import { sizeOf, type View } from "./drawing.ts";
import { Heatmap } from "./heatmap.tsx";
import type { Scale } from "./scale.ts";
import { moved, zoomed } from "./state.ts";

export const SIDE = 512;
export type CellPlace = readonly [row: number, col: number];

export interface BigMapProps {
  side: number; // pixels at most
  info: Info;
  grid: Grid;
  view: View;
  whole: View;
  scale: Scale;
  name: string;
  pinned?: CellPlace;
  isMaskOnly?: boolean;
  onView: (view: View) => void;
  onPin: (cell: CellPlace) => void;
  onKey?: (key: string) => boolean; // whether it meant something
}

/** What stands beside a map: names of rows, room for the last key's name, and a frame. */
export const BESIDE = LEFT + 40 + 8;
const GAP = 16,
  LEAST_HALF = 180;

/** Pixels along an axis of one map, or of each of a pair: side by side where the room is wide enough. */
export function sideIn(room: number, isPair = false): number {
  const fit = (side: number) => Math.max(160, Math.min(SIDE, Math.floor(side)));
  const half = (room - GAP) / 2 - BESIDE;
  return fit(isPair && half >= LEAST_HALF ? half : room - BESIDE);
}

const STEPS: Record<string, CellPlace> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

const within = (place: number, [begin, end]: Range): number =>
  Math.min(end - 1, Math.max(begin, place));

/** The view moved just so far that it shows the cell. */
function following(view: View, [row, col]: CellPlace, whole: View): View {
  const by = (place: number, [begin, end]: Range) =>
    place < begin ? place - begin : place >= end ? place - end + 1 : 0;
  return moved(view, by(row, view.rows), by(col, view.cols), whole);
}

interface Hands {
  props: BigMapProps;
  size: readonly [width: number, height: number];
  cursor?: CellPlace;
  setCursor: (cell: CellPlace) => void;
}

/** What pointer and wheel do: a click pins, a drag moves, the wheel zooms. */
function usePointer({ props, size: [width, height], setCursor }: Hands) {
  const { view, whole, onView, onPin } = props;
  const frame = useRef<HTMLDivElement>(null);
  const drag = useRef<{ x: number; y: number; view: View; hasMoved: boolean } | null>(null);

  const cellAt = (event: MouseEvent): CellPlace => {
    const box = frame.current!.getBoundingClientRect();
    const part = (pixel: number, pixels: number, [begin, end]: Range) =>
      within(begin + Math.floor((pixel * (end - begin)) / pixels), [begin, end]);
    return [
      part(event.clientY - box.top - TOP, height, view.rows),
      part(event.clientX - box.left - LEFT, width, view.cols),
    ];
  };
  const onPointerDown = (event: PointerEvent) => {
    drag.current = { x: event.clientX, y: event.clientY, view, hasMoved: false };
    frame.current!.setPointerCapture(event.pointerId);
  };
  const onPointerMove = (event: PointerEvent) => {
    setCursor(cellAt(event));
    const from = drag.current;
    if (!from) return;
    const [down, right] = [from.y - event.clientY, from.x - event.clientX];
    from.hasMoved ||= Math.hypot(down, right) > 4;
    const cells = (pixels: number, all: number, seen: Range) =>
      Math.round((pixels * length(seen)) / all);
    const rows = cells(down, height, from.view.rows),
      cols = cells(right, width, from.view.cols);
    if (from.hasMoved) onView(moved(from.view, rows, cols, whole));
  };
  const onPointerUp = (event: PointerEvent) => {
    if (drag.current && !drag.current.hasMoved) onPin(cellAt(event));
    drag.current = null;
  };

  // The page scrolls by the wheel until the map has been chosen, or with the key for zooming.
  useEffect(() => {
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && document.activeElement !== frame.current) return;
      event.preventDefault();
      onView(zoomed(view, event.deltaY < 0 ? 1.5 : 1 / 1.5, cellAt(event), whole));
    };
    const element = frame.current!;
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });
  return { ref: frame, onPointerDown, onPointerMove, onPointerUp };
}

/** What keys do while the map has the focus. */
function onKey(event: KeyboardEvent, { props, cursor, setCursor }: Hands): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { view, whole, pinned, onView, onPin } = props;
  const at = cursor ?? pinned ?? [view.rows[0], view.cols[0]];
  const far = event.shiftKey ? 16 : 1;
  const step = STEPS[event.key];
  const walk = ([down, right]: CellPlace) => {
    const next = [
      within(at[0] + far * down, whole.rows),
      within(at[1] + far * right, whole.cols),
    ] as const;
    setCursor(cursor ? next : at);
    onView(following(view, cursor ? next : at, whole));
  };
  const zoom = (factor: number) => onView(zoomed(view, factor, at, whole));
  if (step) walk(step);
  else if (event.key === "+" || event.key === "=") zoom(2);
  else if (event.key === "-") zoom(0.5);
  else if (event.key === "0") onView(whole);
  else if (event.key === "p" || event.key === "Enter") onPin(at);
  else if (!props.onKey?.(event.key)) return;
  event.preventDefault();
}

export function BigMap(props: BigMapProps) {
  const { info, grid, view, scale, pinned, isMaskOnly, side } = props;
  const [width, height] = sizeOf(length(view.rows), length(view.cols), side);
  const [cursor, setCursor] = useState<CellPlace | undefined>(pinned);
  const hands = { props, size: [width, height], cursor, setCursor } as const;
  const pointer = usePointer(hands);
  const help = useId();
  const text = cursor ? cellText(info, grid, ...cursor) : "";
  const spoken = useSettled(text, 300);
  return (
    <div class="bigmap">
      <div
        class="frame"
        tabIndex={0}
        role="application"
        aria-label={props.name}
        aria-describedby={help}
        onKeyDown={(event) => onKey(event, hands)}
        {...pointer}
      >
        <Heatmap {...{ grid, view, scale, width, height, isMaskOnly }} />
        <Axes
          {...{ view, width, height }}
          qTokens={info.qTokens}
          kTokens={info.kTokens}
          marks={{ cursor, pinned }}
        />
      </div>
      <p class="readout">{text || "Point at a cell, or use the arrow keys."}</p>
      <p class="unseen" aria-live="polite">
        {spoken}
      </p>
      <p class="unseen" id={help}>
        Arrow keys move by a cell, with Shift by sixteen; plus, minus and zero zoom; p pins;
        question mark lists all keys.
      </p>
    </div>
  );
}
