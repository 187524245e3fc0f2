// SPDX-License-Identifier: Apache-2.0
// The home page: a list of maps, one of them large, and its numbers.
import { useMemo } from "preact/hooks";
import { changeParams, goTo, type Params } from "../lib/route.ts";
import { SAMPLE_ID } from "../sources/sample.ts";
import { isKeyWanted } from "../lib/api.ts";
import { counted } from "../lib/text.ts";
import { Failure } from "../ui/controls.tsx";
import { CaptureList, useCaptures } from "./capture_list.tsx";
import { useSource } from "./loading.ts";
import { MapView, type MapViewProps } from "./map_view.tsx";
import { readState } from "./state.ts";

export function MapsPage({ params }: { params: Params }) {
  const feed = useCaptures();
  const id = params.id ?? SAMPLE_ID;
  const { value: opened, error, isBusy } = useSource(id, params.options);
  const state = useMemo(() => opened && readState(params, opened.info), [params, opened]);
  const source = useMemo(() => opened?.ofBatch(state?.batch ?? 0), [opened, state?.batch]);
  const isOfId = source !== undefined && source.info.id === id;
  const choose = (chosen: string) =>
    goTo({ page: "maps", params: chosen === SAMPLE_ID ? {} : { id: chosen } }, true);
  return (
    <div class="maps">
      <CaptureList feed={feed} chosen={id} onChoose={choose} />
      {error && <Gone {...{ error, id }} />}
      {isOfId && state && !error ? (
        <Shown {...{ source, state, feed }} options={params.options} />
      ) : (
        isBusy && <p class="hint">Asking the daemon…</p>
      )}
    </div>
  );
}

function Shown(props: MapViewProps) {
  const { name, id, queries, keys } = props.source.info;
  return queries > 0 && keys > 0 ? (
    <MapView {...props} />
  ) : (
    <div>
      <h1>{name || id}</h1>
      <p class="hint">
        {counted(queries, "query", "queries")} and {counted(keys, "key")}: there is nothing to draw.
      </p>
    </div>
  );
}

/** What is shown instead of a map; the sample has no place to lose, and nothing stands in for it. */
function Gone({ error, id }: { error: Error; id: string }) {
  const isLost = id !== SAMPLE_ID && !isKeyWanted(error);
  return (
    <div>
      <h1>No map</h1>
      <Failure error={error} />
      {isLost && (
        <p class="hint">
          A capture stays until newer ones need its place, so pin those you want to keep. The call
          that made it gives it again.{" "}
          <button type="button" onClick={() => changeParams({ id: undefined })}>
            Show the sample
          </button>
        </p>
      )}
    </div>
  );
}
