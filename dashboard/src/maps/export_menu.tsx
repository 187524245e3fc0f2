// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { Copy } from "../ui/controls.tsx";
import {
  CSV_ROWS,
  download,
  fileName,
  makeCsv,
  makeNpy,
  makePng,
  makeSvg,
  type Picture,
} from "./export.ts";

export const EXPORT_MENU = "export-menu";

/** What is seen, to be taken away. */
export function ExportMenu({ picture }: { picture: Picture }) {
  const [notice, setNotice] = useState("");
  const { info, grid } = picture;
  const save = (suffix: string, content: BlobPart, type: string) => {
    download(fileName(info, grid, suffix), content, type);
    setNotice(`Saved ${fileName(info, grid, suffix)}.`);
  };
  const saveCsv = () => {
    const { text, isWhole } = makeCsv(info, grid);
    save("csv", text, "text/csv");
    if (!isWhole)
      setNotice(
        `The CSV has the first ${CSV_ROWS} of ${grid.values.length} cells. Zoom in for others; npy has all.`,
      );
  };
  const savePng = () =>
    makePng(picture).then(
      (blob) => save("png", blob, "image/png"),
      (error: Error) => setNotice(error.message),
    );
  return (
    <details class="menu" id={EXPORT_MENU}>
      <summary>Export what is seen</summary>
      <div class="row">
        <button type="button" onClick={savePng}>
          PNG
        </button>
        <button type="button" onClick={() => save("svg", makeSvg(picture).text, "image/svg+xml")}>
          SVG
        </button>
        <button type="button" onClick={saveCsv}>
          CSV
        </button>
        <button
          type="button"
          onClick={() => save("npy", makeNpy(grid), "application/octet-stream")}
        >
          npy
        </button>
        <Copy text={location.href} label="Copy link" />
      </div>
      <p role="status">{notice}</p>
    </details>
  );
}
