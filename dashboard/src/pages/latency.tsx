// SPDX-License-Identifier: Apache-2.0
// How fast answers are and why, from the daemon's own memory: no other service is needed.
import { useMemo, useState } from "preact/hooks";
import { Problem, isRefused } from "../lib/api.ts";
import { usePoll } from "../lib/hooks.ts";
import { changeParams, type Params } from "../lib/route.ts";
import { bytes, clockOf, milliseconds, number, percent } from "../lib/text.ts";
import { Chart, type Series } from "../ui/chart.tsx";
import { Failure, Panel, Table } from "../ui/controls.tsx";
import {
  askLatency,
  namesOf,
  stepsOf,
  type Bucket,
  type Latency,
  type Quantiles,
  type Step,
} from "./latency_data.ts";

export function LatencyPage({ params }: { params: Params }) {
  const [latency, setLatency] = useState<Latency>();
  const [error, setError] = useState<Error>();
  const isMissing = error instanceof Problem && error.status === 404;
  usePoll(
    () =>
      askLatency().then((value) => {
        setLatency(value);
        setError(undefined);
      }, setError),
    isRefused(error) ? 60_000 : 5000,
  );
  const slo = Number(params.slo) > 0 ? Number(params.slo) : undefined;
  return (
    <div class="latency">
      <h1>Latency</h1>
      <label class="field">
        <span>Your target in ms, drawn as a line</span>
        <input
          type="number"
          min="0"
          step="any"
          value={params.slo ?? ""}
          onChange={(event) => changeParams({ slo: event.currentTarget.value })}
        />
      </label>
      {isMissing && (
        <p class="hint">
          This daemon keeps no history. <a href="metrics">Its metrics</a> are for Prometheus.
        </p>
      )}
      {error && !isMissing && <Failure error={error} />}
      {latency && <Charts {...{ latency, slo }} isOld={error !== undefined} />}
    </div>
  );
}

type Of = (bucket: Bucket) => number | null;
const seriesOf = (steps: readonly Step[], rows: readonly (readonly [string, Of])[]): Series[] =>
  rows.map(([label, of]) => ({ label, values: steps.map(({ bucket }) => bucket && of(bucket)) }));

const MIB = 2 ** 20;
type Numbers = Readonly<Record<string, number>>;
type Sort = (names: string[]) => string[];
const inOrder: Sort = (names) => names.sort();
const asTheyCome: Sort = (names) => names; // stages come in the order of a call

interface ChartRow {
  panel: string;
  title: string;
  series: readonly Series[];
  unit?: string;
  form?: "areas";
  line?: number;
}

/** The charts, one row each. */
function chartsOf(latency: Latency, steps: readonly Step[], slo?: number): ChartRow[] {
  const named = (of: (bucket: Bucket) => Numbers | null, sort: Sort, per = 1): Series[] => {
    const valueOf = (name: string) => (bucket: Bucket) => {
      const value = of(bucket)?.[name];
      return value === undefined ? null : value / per;
    };
    const names = sort(namesOf(latency.buckets, of));
    return seriesOf(
      steps,
      names.map((name) => [name, valueOf(name)] as const),
    );
  };
  const quantile = (name: keyof Quantiles) =>
    [name, ({ total_ms }: Bucket) => total_ms?.[name] ?? null] as const;
  return [
    {
      panel: "Answers",
      title: "Answers per second, by status",
      unit: "1/s",
      series: named(({ statuses }) => statuses, inOrder, latency.step_seconds),
    },
    {
      panel: "Time in all",
      title: "Milliseconds from request to answer",
      unit: "ms",
      series: seriesOf(steps, [quantile("p50"), quantile("p95"), quantile("p99")]),
      line: slo,
    },
    {
      panel: "Where it goes",
      title: "Milliseconds per request, by stage, stacked",
      unit: "ms",
      series: named(({ stages_ms }) => stages_ms, asTheyCome),
      form: "areas",
    },
    {
      panel: "By shape",
      title: "p95 in milliseconds, by shape class",
      unit: "ms",
      series: named(({ shapes }) => shapes, inOrder),
      line: slo,
    },
    ...gaugesOf(latency, steps),
  ];
}

function gaugesOf({ queue_limit }: Latency, steps: readonly Step[]): ChartRow[] {
  const queue = seriesOf(steps, [
    ["waiting", ({ queue_depth }) => queue_depth],
    ["limit", () => queue_limit],
  ]);
  const load = seriesOf(steps, [
    ["in flight", ({ in_flight }) => in_flight],
    ["rejected as busy", ({ rejections }) => rejections],
  ]);
  const memory = seriesOf(steps, [
    ["key/value cache", ({ kv_cache_bytes }) => kv_cache_bytes / MIB],
    ["captures", ({ capture_bytes }) => capture_bytes / MIB],
  ]);
  return [
    { panel: "Queue", title: "Calls that wait, and the limit", series: queue },
    {
      panel: "Load",
      title: "Calls in flight, and calls rejected as busy (429, 503)",
      series: load,
    },
    { panel: "Memory", title: "MiB that caches and captures hold", series: memory, unit: "MiB" },
  ];
}

function Charts({ latency, slo, isOld }: { latency: Latency; slo?: number; isOld: boolean }) {
  const steps = useMemo(() => stepsOf(latency), [latency]);
  const times = useMemo(() => steps.map(({ time }) => time), [steps]);
  const rows = useMemo(() => chartsOf(latency, steps, slo), [latency, steps, slo]);
  return (
    <>
      <Summary {...{ latency, isOld }} />
      <div class="columns">
        {rows.map(({ panel, ...chart }) => (
          <Panel key={panel} title={panel}>
            <Chart {...chart} xs={times} isTime xLabel="time" xText={clockOf} />
          </Panel>
        ))}
      </div>
      <Slowest latency={latency} />
    </>
  );
}

function Summary({ latency, isOld }: { latency: Latency; isOld: boolean }) {
  const last = latency.buckets.at(-1);
  return (
    <p class="facts" role="status">
      {isOld ? "No answer: these are old. " : ""}
      {last &&
        `${latency.buckets.length} steps of ${latency.step_seconds} s; ` +
          `${last.in_flight} in flight, ${last.queue_depth} waiting, ` +
          `captures hold ${bytes(last.capture_bytes)}. `}
      Quantiles are at most {percent(latency.quantile_error)} beside the truth. Where nothing was
      asked there is a gap.
    </p>
  );
}

function Slowest({ latency: { slowest } }: { latency: Latency }) {
  const stages = [...new Set(slowest.flatMap((request) => Object.keys(request.stages_ms)))];
  return (
    <Panel title="The slowest requests">
      {slowest.length === 0 ? (
        <p class="hint">None yet.</p>
      ) : (
        <Table
          caption="The slowest requests, slowest first"
          head={["request", "time", "shape", "status", "in all", ...stages, "map"]}
          rows={slowest.map((request) => [
            request.id,
            clockOf(request.time),
            request.shape,
            request.status,
            milliseconds(request.total_ms),
            ...stages.map((stage) => number(request.stages_ms[stage] ?? 0, 3)),
            request.capture ? (
              <a href={`#maps?id=${encodeURIComponent(request.capture)}`}>open</a>
            ) : (
              "–"
            ),
          ])}
        />
      )}
    </Panel>
  );
}
