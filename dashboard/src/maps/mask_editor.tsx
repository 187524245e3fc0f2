// SPDX-License-Identifier: Apache-2.0
// Another mask for a request of this page, or for what a capture has kept. The preview is the daemon's
// own reading of it.
import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort, postJson } from "../lib/api.ts";
import { useAsync, useSettled } from "../lib/hooks.ts";
import { changeParams, stepTo } from "../lib/route.ts";
import { readTensor, wireOf } from "../lib/tensor.ts";
import { remaskCapture } from "../sources/capture_source.ts";
import { isHeld } from "../sources/held.ts";
import { Kind, type Grid, type Info } from "../sources/source.ts";
import { Check, Failure, NumberField, Panel, Segments } from "../ui/controls.tsx";
import { sizeOf } from "./drawing.ts";
import { Heatmap } from "./heatmap.tsx";
import { emptyDraft, optionsOfDraft, type MaskDraft } from "./mask_expression.ts";

const SIDE = 192;
const BRUSH_CELLS = 32; // along an axis; a permalink has to hold them

/** What a mask hides, seen through a call whose scores are all alike. */
async function previewOf(
  options: Record<string, unknown>,
  { queries, keys, qOffset }: Info,
  signal: AbortSignal,
): Promise<Grid> {
  const [height, width] = [Math.min(queries, SIDE), Math.min(keys, SIDE)];
  const q = wireOf([queries, 1], new Float32Array(queries)),
    k = wireOf([keys, 1], new Float32Array(keys));
  const answer = await postJson<{ scores: Parameters<typeof readTensor>[0] }>(
    "v1/attention",
    {
      q,
      k,
      v: k,
      mask: options.mask,
      q_offset: options.q_offset ?? qOffset,
      return: ["scores"],
      encoding: "base64",
      ...((height < queries || width < keys) && {
        weights: { pool: { rows: height, cols: width, op: "max" } },
      }),
    },
    signal,
  );
  const values = readTensor(answer.scores).data;
  const kinds = Uint8Array.from(values, (score) =>
    score === -Infinity ? Kind.Hidden : Kind.Value,
  );
  return {
    rows: [0, queries],
    cols: [0, keys],
    height,
    width,
    values,
    kinds,
    isExact: true,
    pooling: "max",
  };
}

interface Running {
  isBusy: boolean;
  error?: Error;
}

/** Has the mask tried: on a request of this page as options in the address; of a capture the daemon
 *  makes another one, which is then shown. */
function useRun(id: string, options: Record<string, unknown>) {
  const [running, setRunning] = useState<Running>({ isBusy: false });
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const run = async () => {
    if (isHeld(id)) {
      changeParams({ options: JSON.stringify(options), stage: undefined });
      return;
    }
    abort.current?.abort();
    const { signal } = (abort.current = new AbortController());
    setRunning({ isBusy: true });
    try {
      const made = await remaskCapture(id, options, signal);
      stepTo({ id: made.id, stage: undefined });
    } catch (error) {
      if (!isAbort(error)) setRunning({ isBusy: false, error: error as Error });
    }
  };
  return { ...running, run };
}

export function MaskEditor({ info, isReplaced }: { info: Info; isReplaced: boolean }) {
  const { queries, keys, qOffset } = info;
  const [draft, setDraft] = useState<MaskDraft>(() => emptyDraft(keys, Boolean(qOffset)));
  const change = (part: Partial<MaskDraft>) => setDraft({ ...draft, ...part });
  const options = optionsOfDraft(draft, queries, keys);
  const settled = useSettled(JSON.stringify(options), 200);
  const [isOpen, setIsOpen] = useState(false);
  const { value: grid, error } = useAsync(
    isOpen ? (signal) => previewOf(JSON.parse(settled), info, signal) : undefined,
    [isOpen, settled, queries, keys],
  );
  const { run, isBusy, error: refusal } = useRun(info.id, options);
  return (
    <Panel title="Another mask">
      <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
        <summary>Edit, look, run</summary>
        <DraftFields {...{ draft, change, queries, keys }} hasOwnOffset={Boolean(qOffset)} />
        {(refusal ?? error) && <Failure error={(refusal ?? error)!} />}
        {grid && <Preview {...{ grid, draft, change }} />}
        <div class="row">
          <button type="button" class="main" disabled={isBusy} onClick={run}>
            {isBusy ? "Running…" : "Run"}
          </button>
          {isReplaced && (
            <button type="button" onClick={() => changeParams({ options: undefined })}>
              The request's own mask
            </button>
          )}
        </div>
        {!isHeld(info.id) && (
          <p class="hint">
            The same queries and keys under this mask become a capture beside this one; compare them
            below the map.
          </p>
        )}
        <code class="expression">{JSON.stringify(options.mask).slice(0, 400)}</code>
      </details>
    </Panel>
  );
}

interface DraftProps {
  draft: MaskDraft;
  change: (part: Partial<MaskDraft>) => void;
  queries: number;
  keys: number;
}

function DraftFields(props: DraftProps & { hasOwnOffset: boolean }) {
  const { draft, change, queries, keys, hasOwnOffset } = props;
  const most = Math.max(queries, keys);
  const [left, right] = draft.window ?? [most, most];
  const readLengths = (text: string) =>
    text
      .split(/[ ,]+/)
      .map(Number)
      .filter((size) => Number.isInteger(size) && size > 0);
  return (
    <div class="row">
      <Check label="causal" isOn={draft.isCausal} onChange={(isCausal) => change({ isCausal })} />
      {queries !== keys && (
        <Segments
          label="Where queries stand"
          value={draft.align}
          options={[
            ...(hasOwnOffset ? ([["own", "as in the call"]] as const) : []),
            ["top_left", "from the first key"],
            ["bottom_right", "up to the last key"],
          ]}
          onChange={(align) => change({ align })}
        />
      )}
      <Check
        label="window"
        isOn={draft.window !== undefined}
        onChange={(isOn) =>
          change({ window: isOn ? [Math.min(2, most), Math.min(2, most)] : undefined })
        }
      />
      {draft.window && (
        <NumberField
          label="to the left"
          value={left}
          min={-1}
          max={most}
          onChange={(value) => change({ window: [value, right] })}
        />
      )}
      {draft.window && (
        <NumberField
          label="to the right"
          value={right}
          min={-1}
          max={most}
          onChange={(value) => change({ window: [left, value] })}
        />
      )}
      {draft.isCausal && (
        <NumberField
          label="prefix seen by all"
          value={draft.prefix}
          min={0}
          max={keys}
          onChange={(prefix) => change({ prefix })}
        />
      )}
      <NumberField
        label="keys before padding"
        value={draft.kept}
        min={0}
        max={keys}
        onChange={(kept) => change({ kept })}
      />
      <label class="field">
        <span>documents' lengths</span>
        <input
          value={draft.segments.join(", ")}
          placeholder="3, 5"
          onChange={(event) => change({ segments: readLengths(event.currentTarget.value) })}
        />
      </label>
      <Check label="ALiBi" isOn={draft.isAlibi} onChange={(isAlibi) => change({ isAlibi })} />
    </div>
  );
}

/** The mask as a picture; of small ones the brush hides cells, and shows them again. */
function Preview({ grid, draft, change }: { grid: Grid } & Pick<DraftProps, "draft" | "change">) {
  const [, queries] = grid.rows,
    [, keys] = grid.cols;
  const [width, height] = sizeOf(queries, keys, SIDE);
  const canBrush = Math.max(queries, keys) <= BRUSH_CELLS;
  const toggle = (row: number, col: number) => {
    const hidden = new Set(draft.hidden);
    if (!hidden.delete(row * keys + col)) hidden.add(row * keys + col);
    change({ hidden });
  };
  const onClick = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    if (canBrush)
      toggle(
        Math.min(queries - 1, Math.floor(((event.clientY - box.top) * queries) / height)),
        Math.min(keys - 1, Math.floor(((event.clientX - box.left) * keys) / width)),
      );
  };
  const seen = grid.kinds.reduce((count, kind) => count + Number(kind === Kind.Value), 0);
  return (
    <>
      <div class="preview" onClick={onClick}>
        <Heatmap
          {...{ grid, width, height }}
          isMaskOnly
          view={{ rows: grid.rows, cols: grid.cols }}
          scale={{ low: 0, high: 1, isLog: false, isDiverging: false }}
          name={`preview of the mask: ${seen} of ${grid.kinds.length} cells are seen`}
        />
      </div>
      {canBrush && <Brush {...{ queries, keys, toggle }} />}
    </>
  );
}

/** The brush for those who do not point. */
function Brush({
  queries,
  keys,
  toggle,
}: {
  queries: number;
  keys: number;
  toggle: (row: number, col: number) => void;
}) {
  const [cell, setCell] = useState<readonly [number, number]>([0, 0]);
  return (
    <div class="row">
      <NumberField
        label="query"
        value={cell[0]}
        min={0}
        max={queries - 1}
        onChange={(row) => setCell([row, cell[1]])}
      />
      <NumberField
        label="key"
        value={cell[1]}
        min={0}
        max={keys - 1}
        onChange={(col) => setCell([cell[0], col])}
      />
      <button type="button" onClick={() => toggle(...cell)}>
        Hide or show
      </button>
      <p class="hint">Or click cells of the preview.</p>
    </div>
  );
}
