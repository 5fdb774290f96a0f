// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Writes what the server serves to dist/. The same sources give the same bytes.

import { build } from "esbuild";
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";

const target = "dist";
const bundled = ["preact", "yaml"];

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
await build({
  entryPoints: { app: "src/main.tsx" },
  outdir: target,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  logLevel: "info",
});
for (const file of ["index.html", "favicon.svg"]) {
  await copyFile(`src/${file}`, `${target}/${file}`);
}
await writeFile(`${target}/LICENSES.txt`, (await Promise.all(bundled.map(licenceOf))).join("\n"));

async function licenceOf(library) {
  const folder = `node_modules/${library}`;
  const { version, license } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
  const text = await readFile(`${folder}/LICENSE`, "utf8");
  return `${library} ${version} (${license})\n\n${text.trim()}\n`;
}
