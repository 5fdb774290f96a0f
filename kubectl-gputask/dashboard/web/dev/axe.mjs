// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0
// Looks with axe for what keeps people from using the page, in each view, in light and dark, wide and narrow, with the data of the mock server.
// It fails if it finds anything.

import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";

import { evaluate, openBrowser, pause } from "./browser.mjs";

const port = "8099";
const address = `http://127.0.0.1:${port}/`;
const axe = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** Views, each with the buttons that are pressed in it. */
const views = [
  ["#/cluster", ["Nodes as a table"]],
  ["#/queue"],
  ["#/tasks"],
  ["#/tasks/default/big", ["Manifest"]],
  ["#/tasks/vision/finetune-1", ["Show logs", "Timeline as a table"]],
  ["#/tasks/vision/finetune-1", ["Delete"]],
  ["#/tasks/default/done-0"],
  ["#/whatif", ["Divide into roles"]],
  ["#/whatif", ["Create this task"]],
  ["#/plans"],
  ["#/plans/make-room-big-7h9sz"],
  ["#/plans/make-room-big-7h9sz", ["Approve"]],
  ["#/history", ["History as a table"]],
  ["#/history", ["Queue", "Curves as a table"]],
  ["#/history", ["Whole cluster"]],
  ["#/decisions"],
  ["#/decisions?task=default%2Fbig&outcome=Waits"],
  ["#/decisions?find=nothing-of-this-name"],
  ["#/decisions/127"],
  ["#/nowhere"],
];

const mock = spawn(process.execPath, [new URL("mock.mjs", import.meta.url).pathname], { env: { ...process.env, PORT: port }, stdio: ["ignore", "pipe", "inherit"] });
await new Promise((resolve) => mock.stdout.once("data", resolve));
const page = await openBrowser();
let found = 0;
let looked = 0;
try {
  for (const theme of ["light", "dark"]) {
    for (const [width, height] of [[1440, 900], [900, 700], [390, 844]]) {
      await page.call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
      await page.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: theme }] });
      for (const [hash, presses = []] of views) await look(hash, presses, `${hash} ${presses.join(", ")} (${theme}, ${width} wide)`);
    }
  }
} finally {
  await page.close();
  mock.kill();
}
console.log(`${looked} looks, ${found} findings`);
process.exitCode = found > 0 ? 1 : 0;

async function look(hash, presses, title) {
  await page.call("Page.navigate", { url: "about:blank" });
  await page.call("Page.navigate", { url: address + hash });
  await pause(900);
  for (const text of presses) {
    await evaluate(page, (wanted) => [...document.querySelectorAll("button, summary")].find((one) => one.textContent === wanted).click(), text);
    await pause(500);
  }
  await evaluate(page, axe);
  const violations = await evaluate(page, async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations
    .map(({ id, help, nodes }) => ({ id, help, html: nodes.map((node) => node.html) })));
  looked++;
  for (const { id, help, html } of violations) {
    found += html.length;
    console.log(`${title}: ${id}: ${help}\n  ${html.slice(0, 5).join("\n  ")}`);
  }
}
