// SPDX-License-Identifier: Apache-2.0
import { Panel, Table } from "../ui/controls.tsx";

const KEYS: readonly (readonly [string, string])[] = [
  ["← ↑ → ↓", "move by one cell; with Shift by sixteen"],
  ["+ − 0", "zoom in, out, show all"],
  ["[ ]", "the head before, the next head"],
  ["s", "the next stage"],
  ["l", "log or linear"],
  ["m", "the mask, and back"],
  ["p, Enter", "pin the cell"],
  ["c", "compare with the mean of the heads, and back"],
  ["/", "find a token"],
  ["e", "export what is seen"],
  ["?", "this page"],
];

export function HelpPage() {
  return (
    <div class="text">
      <h1>Help</h1>
      <Panel title="What a map is">
        <p>
          A row is a query, a column a key. Each cell says how much of that key's value goes into
          the query's result: softmax(q·k / √d) along the row, so that a row adds up to 1. Stages
          show what the weight is made of: the product, the scaled product, the score after bias and
          mask.
        </p>
        <p>
          <strong>A map is not an explanation.</strong> It shows what one head read, not why the
          model answered as it did: values, other heads and later layers have their say too.
        </p>
      </Panel>
      <Panel title="What the signs mean">
        <p>
          Hatched cells are hidden by the mask: no weight can be there. A weight of zero has the
          palest colour instead. Magenta marks what is no number (×) or infinite (∞). Maps with more
          cells than pixels are pooled, and the legend says how: <em>max</em> keeps the largest
          weight of each bin, <em>mass</em> sums over keys and takes the mean over queries, so that
          rows still add up to 1.
        </p>
      </Panel>
      <Panel title="When all weight lies on one key">
        <p>
          <strong>A sink.</strong> Many trained heads leave most of their weight on the first token,
          a separator or another that means little, where they have nothing to look for. That is
          learned, and no fault; <em>Ignore first keys</em> shows what is left beside it.
        </p>
        <p>
          <strong>Collapse.</strong> Where rows are saturated, a weight above 0.99 in most of them,
          softmax passes hardly any gradient on (1 − Σp² near 0), and what has collapsed stays so.
          Look at the scaled scores: a variance far above 1 in a model that was not trained yet says
          that scores are too large. Check that they are divided by √d (see the{" "}
          <a href="#lab">Lab</a>), and the initialisation of the projections of q and k: Glorot's
          keeps the variance of what goes in, and weights that are larger by a factor of ten make
          scores larger by a hundred.
        </p>
        <p>
          <strong>All keys alike.</strong> Entropy near 1 in every row says the opposite: scores so
          small that nothing is chosen, as after an initialisation near zero.
        </p>
      </Panel>
      <Panel title="Keys, while the map has the focus">
        <Table caption="Keys" head={["key", "does"]} rows={KEYS} />
      </Panel>
      <Panel title="Further">
        <p>
          <a href="docs">All calls of the service</a>, and{" "}
          <a href="openapi.yaml">the contract for programs</a>.
        </p>
      </Panel>
    </div>
  );
}
