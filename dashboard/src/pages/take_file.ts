// SPDX-License-Identifier: Apache-2.0
// A file that was dropped or chosen becomes the map that is shown.
import { useEffect } from "preact/hooks";
import { goTo, type Params } from "../lib/route.ts";
import { requestOfFile } from "../sources/files.ts";
import { hold } from "../sources/held.ts";
import { keepRequest, openRequest } from "../sources/request_source.ts";

/** Throws what is wrong with the file, or why the daemon did not keep it where it should. */
export async function takeFile(file: File, isToBeKept: boolean): Promise<void> {
  const request = await requestOfFile(file);
  await openRequest(request);
  const kept = isToBeKept ? await keepRequest(request) : {};
  if (isToBeKept && !kept.id)
    throw new Error(`The daemon did not keep it: ${kept.reason ?? "it says no more"}`);
  hold(request);
  const id = kept.id ?? request.id;
  const params = request.head === undefined ? { id } : { id, head: String(request.head) };
  goTo({ page: "maps", params: params as Params }, true);
}

/** Takes files that are dropped anywhere on the page. */
export function useDrop(onOutcome: (error?: Error) => void): void {
  useEffect(() => {
    const allow = (event: DragEvent) => event.preventDefault();
    const take = (event: DragEvent) => {
      const file = event.dataTransfer?.files[0];
      if (event.defaultPrevented || !file) return;
      event.preventDefault();
      takeFile(file, false).then(() => onOutcome(), onOutcome);
    };
    addEventListener("dragover", allow);
    addEventListener("drop", take);
    return () => {
      removeEventListener("dragover", allow);
      removeEventListener("drop", take);
    };
  }, []);
}
