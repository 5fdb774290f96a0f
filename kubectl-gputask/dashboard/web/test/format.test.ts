// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../src/format";

test("numbers have units", () => {
  assert.equal(format.number(1234.56), "1,235");
  assert.equal(format.number(12.345), "12.3");
  assert.equal(format.number(0.5), "0.5");
  assert.equal(format.gpus(1), "1 GPU");
  assert.equal(format.gpus("8"), "8 GPUs");
  assert.equal(format.gpus("0.5"), "0.5 GPUs");
  assert.equal(format.counted(1, "entry", "entries"), "1 entry");
  assert.equal(format.counted(0, "task"), "0 tasks");
  assert.equal(format.gpuTime(142), "2.4 GPU-minutes");
  assert.equal(format.gpuTime(3600), "1 GPU-hour");
  assert.equal(format.gpuTime(0), "0 GPU-minutes");
  assert.equal(format.gpuTime(9500), "2.6 GPU-hours");
  assert.equal(format.microseconds(950), "950 µs");
  assert.equal(format.microseconds(1_970), "1.97 ms");
});

test("durations", () => {
  assert.equal(format.duration(-3), "0 s");
  assert.equal(format.duration(59.6), "1 min");
  assert.equal(format.duration(3_600), "1 h");
  assert.equal(format.duration(4_800), "1 h 20 min");
  assert.equal(format.duration(100_000), "1 d 3 h");
});

test("relative times", () => {
  const now = new Date("2026-11-24T12:00:00Z");
  const ago = (seconds: number) => format.relative(new Date(now.getTime() - seconds * 1000), now);
  assert.equal(ago(2), "just now");
  assert.equal(ago(-2), "just now");
  assert.equal(ago(30), "30 s ago");
  assert.equal(ago(200), "3 min ago");
  assert.equal(ago(40 * 3600), "40 h ago");
  assert.equal(ago(3 * 86_400), "3 d ago");
  assert.equal(ago(-7_200), "in 2 h");
});

test("clock times have a day if it is not today", () => {
  const now = new Date(2026, 10, 24, 12, 0);
  assert.equal(format.clockTime(new Date(2026, 10, 24, 9, 5), now), "09:05");
  assert.equal(format.clockTime(new Date(2026, 10, 23, 9, 5), now), "23 Nov 09:05");
});

test("shares in words", () => {
  assert.equal(format.shareUsed(undefined), "its use is not known yet");
  assert.equal(format.shareUsed(0), "has used nothing lately");
  assert.equal(format.shareUsed(1.02), "has used just its share");
  assert.equal(format.shareUsed(1.3), "has used 1.3 times its share");
});

test("indices of GPUs as ranges", () => {
  assert.equal(format.gpuIndices([3]), "GPU 3");
  assert.equal(format.gpuIndices([7, 0, 1, 2, 4, 5]), "GPUs 0–2, 4, 5, 7");
});

test("lists", () => {
  assert.deepEqual(format.list(null), []);
  assert.equal(format.enumerate(["a", "b", "c"]), "a, b and c");
  assert.equal(format.enumerate([]), "");
});

test("names are compared as people count", () => {
  const names = ["node-10", "node-9", "node-1", "node", "node-09", "a2b10", "a2b9"];
  assert.deepEqual(names.sort(format.compareNames), ["a2b9", "a2b10", "node", "node-1", "node-09", "node-9", "node-10"]);
});

test("times in sentences are in the viewer's zone, and times by themselves stay", () => {
  const time = new Date(2026, 10, 24, 9, 5);
  const now = new Date(2026, 10, 24, 12, 0);
  const utc = time.toISOString().replace(".000Z", "Z");
  assert.equal(
    format.withLocalTimes(JSON.stringify({ since: utc, message: `preempted at ${utc}: it waits`, manifest: `a: "${utc}"` }), now),
    JSON.stringify({ since: utc, message: "preempted at 09:05: it waits", manifest: `a: "${utc}"` }),
  );
  assert.equal(format.withLocalTimes('"at 2026-99-99T99:99:99Z"', now), '"at 2026-99-99T99:99:99Z"');
});

test("times that would look the same have seconds", () => {
  const now = new Date("2026-11-24T12:00:00");
  const at = (text: string) => new Date(`2026-11-24T${text}`);
  assert.deepEqual(format.clockTimes([at("10:49:05"), at("10:49:20")], now), ["10:49:05", "10:49:20"]);
  assert.deepEqual(format.clockTimes([at("10:49:05"), at("10:50:20")], now), ["10:49", "10:50"]);
});

test("long messages are cut after their first sentence", () => {
  assert.deepEqual(format.firstSentence("It waits. It is short."), ["It waits. It is short.", ""]);
  const rest = "4 nodes have too few free GPUs, 3 have another GPU model; it would start with 6 more free GPUs on one node";
  assert.deepEqual(format.firstSentence(`Needs 8 GPUs of a100-40gb; ${rest}`), ["Needs 8 GPUs of a100-40gb", rest]);
  assert.deepEqual(format.firstSentence("a".repeat(200)), ["a".repeat(200), ""]);
});
