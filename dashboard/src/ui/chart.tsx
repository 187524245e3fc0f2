// SPDX-License-Identifier: Apache-2.0
// A chart with its legend, and the same numbers as a table beside it.
import { useEffect, useRef } from "preact/hooks";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { lonely } from "../lib/series.ts";
import { number } from "../lib/text.ts";
import { Table } from "./controls.tsx";
import { useTheme } from "./theme.ts";

export interface Series {
  label: string;
  values: readonly (number | null)[]; // null is a gap: nothing was there to be measured
}

interface ChartProps {
  title: string;
  xLabel: string;
  xs: readonly number[];
  series: readonly Series[];
  form?: "lines" | "bars" | "areas"; // areas are stacked
  isTime?: boolean;
  isLogX?: boolean;
  unit?: string;
  xText?: (x: number) => string;
  line?: number; // a level that the reader set
}

const STROKES = [
  "--series-0",
  "--series-1",
  "--series-2",
  "--series-3",
  "--series-4",
  "--series-5",
  "--series-6",
  "--series-7",
  "--series-8",
];
// As many as have no divisor in common with the colours, so that few series share both.
const DASHES = [[], [8, 4], [2, 3], [12, 3, 2, 3], [5, 5], [1, 2], [14, 6]];
const HEIGHT = 220;

/** A series as it is drawn: its colour filled, or its line with its dashes. */
function Swatch({ at, isLine }: { at: number; isLine: boolean }) {
  return (
    <svg class={`swatch s${at % STROKES.length}`} viewBox="0 0 32 12" aria-hidden="true">
      {isLine ? (
        <line
          x2="32"
          y1="6"
          y2="6"
          stroke="currentColor"
          stroke-width="2.5"
          stroke-dasharray={DASHES[at % DASHES.length].join(" ")}
        />
      ) : (
        <rect width="32" height="12" fill="currentColor" />
      )}
    </svg>
  );
}

const colour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Each series on top of those before it, the last one first: areas are painted over each other. */
function stacked(series: readonly Series[]): Series[] {
  const sums: Series[] = [];
  series.forEach(({ label, values }, i) =>
    sums.push({
      label,
      values: values.map((value, at) =>
        value === null ? null : value + (i > 0 ? (sums[i - 1].values[at] ?? 0) : 0),
      ),
    }),
  );
  return sums;
}

const timesOf = (_: UPlot, ticks: number[]): string[] =>
  ticks.map((tick) =>
    new Date(tick * 1000).toLocaleTimeString([], {
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hour12: false,
    }),
  );

function optionsOf(
  { title, form, isTime, isLogX, unit, xLabel, line }: ChartProps,
  shown: readonly number[],
  width: number,
): UPlot.Options {
  const axis = {
    stroke: colour("--text"),
    grid: { stroke: colour("--line") },
    ticks: { stroke: colour("--line") },
  };
  const stroke = (i: number) => colour(STROKES[i % STROKES.length]);
  const drawLine = (plot: UPlot) => {
    if (line === undefined) return;
    const y = plot.valToPos(line, "y", true);
    plot.ctx.fillStyle = colour("--alarm");
    plot.ctx.fillRect(plot.bbox.left, y, plot.bbox.width, 2);
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    class: title ? undefined : "plain",
    cursor: { drag: { x: false, y: false } },
    padding: [8, 34, 0, 0], // half a time of day, which stands under the last place
    scales: {
      x: { time: isTime ?? false, ...(isLogX && { distr: 3, log: 2 }) },
      y: { range: (_, __, most) => [0, (most || 1) * 1.05] },
    },
    axes: [
      { ...axis, label: xLabel, labelSize: 20, ...(isTime && { space: 80, values: timesOf }) },
      { ...axis, size: 64, label: unit, labelSize: 16 },
    ],
    series: [
      {},
      ...shown.map((i) => ({
        stroke: stroke(i),
        width: 2,
        dash: form === "lines" || !form ? DASHES[i % DASHES.length] : undefined,
        points: {
          show: false,
          size: 6,
          fill: stroke(i),
          filter: (plot: UPlot, of: number) => lonely(plot.data[of]),
        },
        ...(form === "bars" && {
          paths: UPlot.paths.bars!({ size: [0.95] }),
          fill: stroke(i),
          points: { show: false },
        }),
        // As wide as their step, so that one alone is seen too.
        ...(form === "areas" && {
          paths: UPlot.paths.bars!({ size: [1] }),
          fill: stroke(i),
          width: 0,
          points: { show: false },
        }),
      })),
    ],
    hooks: { draw: [drawLine] },
  };
}

export function Chart(props: ChartProps) {
  const { title, xs, series, form = "lines", xLabel, xText = number, unit } = props;
  const place = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  useEffect(() => {
    const drawn = form === "areas" ? stacked(series) : series;
    const order = drawn.map((_, i) => (form === "areas" ? drawn.length - 1 - i : i));
    const data = [xs, ...order.map((i) => drawn[i].values)] as unknown as UPlot.AlignedData;
    const element = place.current!;
    const plot = new UPlot(optionsOf(props, order, element.clientWidth || 480), data, element);
    const watch = new ResizeObserver(() =>
      plot.setSize({ width: element.clientWidth || 480, height: HEIGHT }),
    );
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [xs, series, theme, props.line]);
  const head = [xLabel, ...series.map(({ label }) => `${label}${unit ? `, ${unit}` : ""}`)];
  const value = (given: number | null | undefined) =>
    given === null || given === undefined ? "–" : number(given);
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={place} role="img" aria-label={`${title}; the numbers are in the table below`} />
      {series.length > 1 && (
        <ul class="legend">
          {series.map(({ label }, i) => (
            <li key={label}>
              <Swatch at={i} isLine={form === "lines"} />
              {label}
            </li>
          ))}
        </ul>
      )}
      <details>
        <summary>As a table</summary>
        <Table
          caption={title}
          head={head}
          rows={xs.map((x, at) => [xText(x), ...series.map(({ values }) => value(values[at]))])}
        />
      </details>
    </figure>
  );
}
