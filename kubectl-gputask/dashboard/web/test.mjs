// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Bundles the tests, which are TypeScript, and has node run them.

import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { readdir, rm } from "node:fs/promises";

const target = "build/test";

await rm(target, { recursive: true, force: true });
const tests = (await readdir("test")).filter((name) => name.endsWith(".test.ts")).sort();
await build({
  entryPoints: tests.map((name) => `test/${name}`),
  outdir: target,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  // Libraries are those that the browser gets.
  platform: "neutral",
  external: ["node:*"],
  format: "esm",
  target: "node20",
  sourcemap: "inline",
  logLevel: "warning",
});
const files = tests.map((name) => `${target}/${name.replace(/\.ts$/, ".mjs")}`);
const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], { stdio: "inherit" });
process.exitCode = status ?? 1;
