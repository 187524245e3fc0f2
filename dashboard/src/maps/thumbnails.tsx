// SPDX-License-Identifier: Apache-2.0
// Every head at a glance, a row per layer; heads that share keys and values stand together.
import { useState } from "preact/hooks";
import { useAsync } from "../lib/hooks.ts";
import { Kind, length, type Head, type MapSource } from "../sources/source.ts";
import { sizeOf } from "./drawing.ts";
import { Heatmap } from "./heatmap.tsx";
import { largest } from "./scale.ts";
import { scaleOf, type MapState } from "./state.ts";

const SIDE = 56;
const AT_FIRST = 32;

interface ThumbnailProps {
  source: MapSource;
  state: MapState;
  isSeen: boolean; // the large map is there, and others may be asked for
  head: number;
  isChosen: boolean;
  onChoose: (head: Head) => void;
}

function Thumbnail({ source, state, isSeen, head, isChosen, onChoose }: ThumbnailProps) {
  const { info } = source;
  const whole = { rows: [0, info.queries], cols: [state.skip, info.keys] } as const;
  const stage = state.stage === "mask" ? "weights" : state.stage;
  const { batch, pooling } = state;
  const query = { ...whole, batch, head, stage, pooling, height: SIDE, width: SIDE };
  const { value: grid } = useAsync(
    // Of a long map some rows will do: a pass over all of it for each head would take long.
    isSeen ? (signal) => (source.preview ?? source.grid).call(source, query, signal) : undefined,
    [source, isSeen, batch, head, stage, pooling, state.skip],
  );
  const [width, height] = sizeOf(length(whole.rows), length(whole.cols), SIDE, 12);
  const odd = grid?.kinds.some((kind) => kind === Kind.NotANumber || kind === Kind.Infinite);
  return (
    <button
      type="button"
      class="thumbnail"
      aria-pressed={isChosen}
      title={grid && !grid.isExact ? "sampled: of some rows" : undefined}
      onClick={() => onChoose(head)}
    >
      {grid ? (
        <Heatmap
          {...{ grid, view: whole, width, height }}
          scale={scaleOf(state, largest(grid))}
          isMaskOnly={state.stage === "mask"}
        />
      ) : (
        <span class="blank" />
      )}
      <span>
        {odd && "⚠ "}head {head}
      </span>
    </button>
  );
}

interface ThumbnailsProps {
  source: MapSource;
  state: MapState;
  isSeen: boolean;
  name?: string; // of the layer, where there are several
  isChosen: boolean;
  onChoose: (head: Head) => void;
}

export function Thumbnails(props: ThumbnailsProps) {
  const { source, state, isSeen, name, isChosen, onChoose } = props;
  const { heads, kvHeads } = source.info;
  const [isAll, setIsAll] = useState(false);
  const shared = Math.max(1, heads / Math.max(1, kvHeads));
  const shown = isAll ? heads : Math.min(heads, AT_FIRST);
  const groups = Array.from({ length: Math.ceil(shown / shared) }, (_, group) =>
    Array.from({ length: Math.min(shared, shown - group * shared) }, (_, i) => group * shared + i),
  );
  return (
    <div class="thumbnails" role="group" aria-label={name ? `Heads of ${name}` : "Heads"}>
      {name && <strong>{name}</strong>}
      {groups.map((members, group) => (
        <span
          key={group}
          class={shared > 1 ? "kvgroup" : "kvgroup single"}
          title={shared > 1 ? `key/value head ${group}` : undefined}
        >
          {members.map((head) => (
            <Thumbnail
              key={head}
              {...{ source, state, isSeen, head, onChoose }}
              isChosen={isChosen && state.head === head}
            />
          ))}
        </span>
      ))}
      {shown < heads && (
        <button type="button" onClick={() => setIsAll(true)}>
          all {heads} heads
        </button>
      )}
    </div>
  );
}
