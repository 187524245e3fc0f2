// SPDX-License-Identifier: Apache-2.0
// Why scores are divided by √d: guess, look, and repeat it from code.
import { useMemo } from "preact/hooks";
import { useAsync } from "../lib/hooks.ts";
import { changeParams, type Params } from "../lib/route.ts";
import { number, percent } from "../lib/text.ts";
import { ColourBar } from "../maps/colour_bar.tsx";
import { Heatmap } from "../maps/heatmap.tsx";
import { Chart } from "../ui/chart.tsx";
import { Facts, Failure, NumberField, Panel, Segments, Snippet, Table } from "../ui/controls.tsx";
import {
  DIVISORS,
  MOST_SIZE,
  VECTORS,
  askPublished,
  attendSize,
  attendSizes,
  divisorOf,
  histogram,
  publishedRequest,
  scaleOption,
  type Divisor,
  type Outcome,
  type SizeOutcomes,
} from "./lab_calls.ts";
import { SizeSlider } from "./size_slider.tsx";

const GUESSES = ["0.1", "0.3", "0.6", "0.9"] as const;
const NAMES: Readonly<Record<Divisor, string>> = { "1": "q·k", root: "q·k / √d", d: "q·k / d" };
const EFFECTS: Readonly<Record<Divisor, string>> = {
  "1": "The variance is d: the larger d, the nearer each query comes to reading one key alone.",
  root: "The variance is 1 for any d: how much a query chooses depends on what it asks.",
  d: "The variance is 1/d: the larger d, the more alike all keys weigh, and nothing is chosen.",
};
const WEIGHTS = { low: 0, high: 1, isLog: false, isDiverging: false };

const sizeOf = (text: string | undefined): number => {
  const size = Number(text);
  return Number.isInteger(size) && size >= 1 && size <= MOST_SIZE ? size : 64;
};

export function LabPage({ params }: { params: Params }) {
  const seed = Math.max(0, Math.round(Number(params.seed ?? 3))) || 0;
  const { value: outcomes, error } = useAsync((signal) => attendSizes(seed, signal), [seed]);
  const size = sizeOf(params.d);
  const divisor = DIVISORS.find((known) => known === params.divisor) ?? "1";
  const isRevealed = params.guess !== undefined;
  const known = outcomes?.find((outcome) => outcome.size === size);
  const isOther = outcomes !== undefined && !known;
  const other = useAsync(isOther ? (signal) => attendSize(seed, size, signal) : undefined, [
    isOther,
    seed,
    size,
  ]);
  const chosen = known ?? other.value;
  return (
    <div class="lab">
      <h1>Why √d?</h1>
      <p>
        A score is the product q·k of two vectors of size d. If their numbers have variance 1, the
        product has variance d. The softmax turns large scores into a choice of one key, and lets no
        gradient through; dividing by √d brings the variance back to 1.
      </p>
      <div class="toolbar">
        <NumberField
          label="Seed"
          value={seed}
          min={0}
          max={4294967295}
          onChange={(value) => changeParams({ seed: String(value) })}
        />
        <SizeSlider
          {...{ size }}
          most={MOST_SIZE}
          onChange={(d) => changeParams({ d: String(d) })}
        />
        <Segments
          label="Divided by"
          value={divisor}
          options={DIVISORS.map((each) => [each, NAMES[each]] as const)}
          onChange={(chosen) => changeParams({ divisor: chosen })}
        />
      </div>
      {(error ?? other.error) && <Failure error={(error ?? other.error)!} />}
      <Question guess={params.guess} outcomes={outcomes} />
      {chosen && isRevealed && (
        <Pictures outcome={chosen.by[divisor]} size={chosen.size} divisor={divisor} />
      )}
      {outcomes && isRevealed && <Results outcomes={outcomes} />}
      <Published seed={seed} />
      <AsCode {...{ seed, size, divisor }} />
    </div>
  );
}

function Question({ guess, outcomes }: { guess?: string; outcomes?: readonly SizeOutcomes[] }) {
  const truth = outcomes?.find(({ size }) => size === 512)?.by["1"].largest;
  return (
    <Panel title="First a guess">
      <p id="question">
        {VECTORS} queries look at {VECTORS} keys of size 512, without a scale. How large is the
        largest weight of a query, on average?
      </p>
      <Segments
        label="Your guess"
        value={guess ?? ""}
        options={GUESSES.map((text) => [text, text] as const)}
        onChange={(text) => changeParams({ guess: text, d: "512" })}
      />
      {guess !== undefined && truth !== undefined && (
        <p role="status">
          You said {guess}; it is <strong>{number(truth, 2)}</strong>. Each query reads almost one
          key alone.
        </p>
      )}
      {guess === undefined && <p class="hint">The pictures come when you have guessed.</p>}
    </Panel>
  );
}

function Pictures({
  outcome,
  size,
  divisor,
}: {
  outcome: Outcome;
  size: number;
  divisor: Divisor;
}) {
  const deviation = Math.sqrt(size) / divisorOf(divisor, size);
  const most = 4 * deviation;
  const { middles, counts } = useMemo(() => histogram(outcome.products, most), [outcome, most]);
  const what = NAMES[divisor];
  const series = useMemo(() => [{ label: "products", values: counts }], [counts]);
  return (
    <div class="columns">
      <Panel title={`${what} for d = ${size}`}>
        <Chart
          title={`How often ${what} has a value, among ${VECTORS * VECTORS}`}
          xLabel={what}
          xs={middles}
          series={series}
          form="bars"
        />
        <Facts
          facts={[
            [`variance of ${what}`, <strong>{number(outcome.variance)}</strong>],
            ["expected", divisor === "1" ? `d = ${size}` : number(deviation ** 2)],
          ]}
        />
        <p id="effect">{EFFECTS[divisor]}</p>
      </Panel>
      <Panel title="What softmax makes of it">
        <Heatmap
          grid={outcome.weights}
          view={{ rows: [0, VECTORS], cols: [0, VECTORS] }}
          scale={WEIGHTS}
          width={256}
          height={256}
          name={`softmax rows: largest weight ${number(outcome.largest)} on average`}
        />
        <ColourBar scale={WEIGHTS} odd={0} text="weight, linear 0 … 1; a row per query" />
        <Facts
          facts={[
            ["largest weight of a row, mean", <strong>{number(outcome.largest)}</strong>],
            [`entropy of a row, of ${number(Math.log2(VECTORS))} bits`, number(outcome.entropy)],
            ["rows with a weight above 0.99", percent(outcome.saturated)],
            ["1 − Σp², what the gradient passes", number(outcome.gradient)],
          ]}
        />
      </Panel>
    </div>
  );
}

function Results({ outcomes }: { outcomes: readonly SizeOutcomes[] }) {
  const series = useMemo(
    () => [
      { label: "unscaled", values: outcomes.map(({ by }) => by["1"].gradient) },
      { label: "scaled by 1/√d", values: outcomes.map(({ by }) => by.root.gradient) },
      { label: "scaled by 1/d", values: outcomes.map(({ by }) => by.d.gradient) },
    ],
    [outcomes],
  );
  const xs = useMemo(() => outcomes.map(({ size }) => size), [outcomes]);
  const head = [
    "d",
    "variance of q·k",
    "largest weight",
    "entropy, bits",
    "rows above 0.99",
    "1 − Σp²",
    "scaled: largest weight",
    "scaled: entropy",
    "scaled: 1 − Σp²",
    "by d: largest weight",
    "by d: entropy",
  ];
  return (
    <Panel title="All sizes">
      <Table
        caption={`${VECTORS} queries and keys, normal numbers`}
        head={head}
        rows={outcomes.map(({ size, by: { "1": unscaled, root, d } }) => [
          size,
          number(unscaled.variance),
          number(unscaled.largest, 2),
          number(unscaled.entropy, 3),
          percent(unscaled.saturated),
          number(unscaled.gradient, 2),
          number(root.largest, 2),
          number(root.entropy, 3),
          number(root.gradient, 2),
          number(d.largest, 2),
          number(d.entropy, 3),
        ])}
      />
      <Chart
        title="1 − Σp², the trace of the softmax's gradient"
        xLabel="d"
        xs={xs}
        series={series}
        isLogX
      />
    </Panel>
  );
}

function Published({ seed }: { seed: number }) {
  const { value, error } = useAsync((signal) => askPublished(seed, signal), [seed]);
  const divisors = value?.results[0]?.rows.map(({ divided_by }) => divided_by) ?? [];
  return (
    <Panel title="The published experiment: one query, three keys">
      {error && <Failure error={error} />}
      {value && (
        <Table
          caption={`Seed ${seed}, variance over 2000 products`}
          head={[
            "d",
            "variance of q·k",
            ...divisors.map((divisor) => `largest weight, divided by ${divisor}`),
          ]}
          rows={value.results.map(({ d_k, variance, rows }) => [
            d_k,
            variance.toFixed(2),
            ...rows.map(({ max }) => max.toFixed(2)),
          ])}
        />
      )}
    </Panel>
  );
}

const base = (): string => new URL("./", location.href).href.replace(/#.*$/, "");

function AsCode({ seed, size, divisor }: { seed: number; size: number; divisor: Divisor }) {
  const scale = scaleOption(divisor, size);
  const curl =
    `curl -sS ${base()}v1/experiments/scaling -H 'Content-Type: application/json' \\\n` +
    `  -d '${JSON.stringify(publishedRequest(seed))}'`;
  const python = `import io, json, urllib.request
import numpy as np

random = np.random.RandomState(${seed})
q = random.standard_normal((${VECTORS}, ${size})).astype(np.float32)
k = random.standard_normal((${VECTORS}, ${size})).astype(np.float32)
options = {"return": ["stats", "weights"]${scale === undefined ? "" : `, "scale": ${JSON.stringify(scale)}`}}
body = io.BytesIO()
np.savez(body, q=q, k=k, v=np.zeros((${VECTORS}, 1), np.float32), options=json.dumps(options))
call = urllib.request.Request("${base()}v1/attention", body.getvalue(),
                              {"Content-Type": "application/x-npz"})
answer = np.load(io.BytesIO(urllib.request.urlopen(call).read()))
print(str(answer["stats"]))
`;
  return (
    <Panel title="The same from code">
      <details>
        <summary>The published experiment, with curl</summary>
        <Snippet text={curl} label="curl" />
      </details>
      <details>
        <summary>The pictures above, with numpy</summary>
        <Snippet text={python} label="Python" />
      </details>
    </Panel>
  );
}
