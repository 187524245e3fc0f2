// SPDX-License-Identifier: Apache-2.0
// Bundles the page into dist/ and writes server/page_files.def, the table by which the daemon finds
// it. Both are committed, so that building the daemon needs no Node; --check only compares.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const SCRIPT_LIMIT = 80_000; // bytes of script, packed
const here = new URL("./", import.meta.url);

const bundled = await build({
  absWorkingDir: here.pathname,
  entryPoints: { app: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  banner: {
    js:
      "/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by dashboard/build.mjs. With Preact and " +
      "uPlot, both MIT; dashboard/README.md has their notices. */",
    css: "/* Made by dashboard/build.mjs. */",
  },
  outdir: "dist",
  write: false,
});

const hashOf = (text) => createHash("sha256").update(text).digest("hex").slice(0, 12);
const files = bundled.outputFiles.map(({ path, text }) => {
  const suffix = path.split(".").pop();
  return {
    file: `app.${suffix}`,
    path: `assets/app-${hashOf(text)}.${suffix}`,
    text,
    type: suffix === "js" ? "text/javascript; charset=utf-8" : "text/css; charset=utf-8",
  };
});
const page = files.reduce(
  (text, { file, path }) => text.replace(`{${file}}`, path),
  readFileSync(new URL("src/index.html", here), "utf8"),
);
files.push({ file: "index.html", path: "", text: page, type: "text/html; charset=utf-8" });

const row = ({ file, path, type }) =>
  `DOCUMENT(${file.replace(".", "_").toUpperCase()}, "/${path}",\n` +
  `         "dashboard/dist/${file}", "${type}", PAGE_POLICY)\n`;
const table =
  "/* SPDX-License-Identifier: Apache-2.0 */\n" +
  "/* The files of the dashboard, rows of documents.def; made by dashboard/build.mjs: make page. */\n" +
  files.map(row).join("");

const outputs = [
  ...files.map(({ file, text }) => [new URL(`dist/${file}`, here), text]),
  [new URL("../server/page_files.def", here), table],
];
const readIfThere = (url) => {
  try {
    return readFileSync(url, "utf8");
  } catch {
    return null;
  }
};
const stale = outputs.filter(([url, text]) => readIfThere(url) !== text);
if (process.argv.includes("--check") && stale.length > 0) {
  console.error(
    stale.map(([url]) => `${url.pathname} is not what its source makes: make page`).join("\n"),
  );
  process.exit(1);
}
mkdirSync(new URL("dist/", here), { recursive: true });
for (const [url, text] of stale) writeFileSync(url, text);

const scriptBytes = gzipSync(files.find(({ file }) => file === "app.js").text, { level: 9 }).length;
console.log(`page: ${scriptBytes} bytes of script when packed, at most ${SCRIPT_LIMIT}`);
if (scriptBytes > SCRIPT_LIMIT) process.exit(1);
