// SPDX-License-Identifier: Apache-2.0
// How maps get here: a file that is dropped, or a call from a program.
import { useState } from "preact/hooks";
import { changeParams, type Params } from "../lib/route.ts";
import { useCaptures } from "../maps/capture_list.tsx";
import { SUFFIXES } from "../sources/files.ts";
import { Check, Failure, Panel, Segments, Snippet } from "../ui/controls.tsx";
import { SNIPPETS } from "./snippets.ts";
import { takeFile } from "./take_file.ts";

export function SendPage({ params }: { params: Params }) {
  const [name, snippet] = SNIPPETS.find(([known]) => known === params.in) ?? SNIPPETS[0];
  const base = new URL("./", location.href).href;
  return (
    <div class="text">
      <h1>Send your own</h1>
      <DropPanel />
      <Panel title="From a program">
        <p>
          The call names the capture. Its answer's <code>meta.capture.id</code> is what the list of{" "}
          <a href="#maps">Maps</a> shows first, and the page <code>#maps?id=</code>ID is of it.
        </p>
        <Segments
          label="Language"
          value={name}
          options={SNIPPETS.map(([known]) => [known, known] as const)}
          onChange={(known) => changeParams({ in: known })}
        />
        <Snippet text={snippet(base)} label={`${name} program`} />
        <p>
          Tokens along the axes:{" "}
          <code>
            "labels": {"{"}"q": […], "k": […]{"}"}
          </code>
          . All options are <a href="docs">here</a>.
        </p>
      </Panel>
    </div>
  );
}

function DropPanel() {
  const feed = useCaptures();
  const [error, setError] = useState<Error>();
  const [isOver, setIsOver] = useState(false);
  const [isKept, setIsKept] = useState(false);
  const take = async (file: File | undefined) => {
    if (!file) return;
    try {
      await takeFile(file, isKept);
    } catch (thrown) {
      setError(thrown as Error);
    }
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setIsOver(false);
    take(event.dataTransfer?.files[0]);
  };
  return (
    <Panel title="From a file">
      <div
        class={isOver ? "drop over" : "drop"}
        onDrop={onDrop}
        onDragOver={(event) => {
          event.preventDefault();
          setIsOver(true);
        }}
        onDragLeave={() => setIsOver(false)}
      >
        <label class="field">
          <span>Drop a file with q, k and v here, or choose one: {SUFFIXES.join(", ")}</span>
          <input
            type="file"
            accept={SUFFIXES.join()}
            onChange={(event) => take(event.currentTarget.files?.[0])}
          />
        </label>
        {feed.isEnabled && (
          <Check label="let the daemon keep it as a capture" isOn={isKept} onChange={setIsKept} />
        )}
        <p class="hint">
          The page holds the file until it is closed, and the daemon computes what you look at.
        </p>
      </div>
      {error && <Failure error={error} />}
    </Panel>
  );
}
