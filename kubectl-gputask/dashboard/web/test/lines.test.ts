// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { LastLines } from "../src/lines";

const texts = (lines: LastLines) => lines.all().map((line) => line.text);

test("lines are put together, and the last one may be open", () => {
  const lines = new LastLines(10);
  lines.push("a\nb");
  assert.deepEqual(texts(lines), ["a", "b"]);
  lines.push("c\r\n\nd");
  assert.deepEqual(texts(lines), ["a", "bc", "", "d"]);
});

test("only the last lines are kept, with their numbers", () => {
  const lines = new LastLines(3);
  for (let i = 0; i < 100; i++) lines.push(`${i}\n`);
  assert.deepEqual(lines.all(), [{ number: 97, text: "97" }, { number: 98, text: "98" }, { number: 99, text: "99" }]);
  assert.equal(lines.dropped, 97);
  lines.push("open");
  assert.deepEqual(texts(lines), ["98", "99", "open"]);
});

test("commands for terminals are left out", () => {
  const lines = new LastLines(10);
  lines.push("\u001b[1;32mgreen\u001b[0m \u001b]0;title\u0007text\u0000\n10%\r50%\r100%\n\ttab\n");
  assert.deepEqual(texts(lines), ["green text", "100%", "\ttab"]);
});

test("a line without an end does not grow without limit", () => {
  const lines = new LastLines(10);
  for (let i = 0; i < 100; i++) lines.push("x".repeat(10_000));
  assert.ok(texts(lines).every((text) => text.length <= 20_000));
  assert.equal(texts(lines).length, 10);
});
