// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0
// Drives a headless Chromium over the pipes of its DevTools protocol, so that no other package is needed. CHROMIUM is its path.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const path = process.env.CHROMIUM ?? "/usr/bin/chromium";

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Starts a browser with one page. */
export async function openBrowser() {
  const profile = await mkdtemp(join(tmpdir(), "dashboard-"));
  const browser = spawn(path, ["--headless=new", "--no-sandbox", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "about:blank"], {
    stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
  });
  const call = protocol(browser.stdio[3], browser.stdio[4]);
  const { targetId } = await call("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
  return {
    call: (method, parameters) => call(method, parameters, sessionId),
    close: async () => {
      const ended = new Promise((resolve) => browser.on("exit", resolve));
      browser.kill();
      await ended;
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Messages are JSON with a zero byte behind each. */
function protocol(output, input) {
  const waiting = new Map();
  let last = 0;
  let rest = "";
  input.setEncoding("utf8");
  input.on("data", (text) => {
    const messages = (rest + text).split("\0");
    rest = messages.pop();
    for (const message of messages.map((one) => JSON.parse(one))) {
      const { resolve, reject } = waiting.get(message.id) ?? {};
      waiting.delete(message.id);
      if (message.error) reject?.(new Error(message.error.message));
      else resolve?.(message.result);
    }
  });
  return (method, parameters = {}, sessionId = undefined) => new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    output.write(`${JSON.stringify({ id: last, method, params: parameters, sessionId })}\0`);
  });
}

/** Runs a function in the page, with arguments that JSON can write, and returns what it returns. */
export async function evaluate(page, run, ...given) {
  const expression = typeof run === "string" ? `${run};undefined` : `(${run})(...${JSON.stringify(given)})`;
  const { result, exceptionDetails } = await page.call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}
