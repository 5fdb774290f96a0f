// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Sample } from "../src/api";
import { areaPath, linePath, nearest, parts, timeTicks, valueTicks, type Frame } from "../src/curves";
import { mergeSamples, summaryOf } from "../src/samples";

const now = Date.parse("2026-11-24T12:00:00Z");
const sample = (secondsAgo: number, allocated: number): Sample =>
  ({ time: new Date(now - secondsAgo * 1000).toISOString(), total: 8, allocated, stranded: 1, waiting: 2, unhealthy: 0 });

test("live samples are appended to those that were fetched", () => {
  const merged = mergeSamples([sample(7200, 1), sample(60, 2), sample(30, 3)], [sample(10, 6), sample(30, 99), sample(40, 98), sample(20, 5)], 1, now);
  assert.deepEqual(merged.map((one) => one.allocated), [2, 3, 5, 6]);
  assert.deepEqual(mergeSamples([], [sample(5, 4)], 1, now).length, 1);
});

test("the summary says what the curves show", () => {
  assert.equal(
    summaryOf([sample(60, 2), sample(30, 6)]),
    "6 of 8 GPUs are allocated now; the average over this span is 4, between 2 and 6. At most 2 GPUs were requested at once; 1 is stranded and 0 unhealthy now.",
  );
});

test("the summary of what has not changed has no range", () => {
  assert.match(summaryOf([sample(60, 5), sample(30, 5)]), /^5 of 8 GPUs are allocated now; the average over this span is 5\. /);
  assert.match(summaryOf([sample(30, 1)]), /^1 of 8 GPUs is allocated now; /);
});

test("the mean is one over time, however far samples are apart", () => {
  assert.match(summaryOf([sample(600, 0), sample(60, 0), sample(45, 8), sample(30, 8), sample(15, 8), sample(0, 8)]), /the average over this span is 0\.7, between 0 and 8/);
});

test("values have round ticks", () => {
  assert.deepEqual(valueTicks(432, 5), [0, 100, 200, 300, 400, 500]);
  assert.deepEqual(valueTicks(0, 5), [0, 1]);
  assert.deepEqual(valueTicks(3, 5), [0, 1, 2, 3]);
  assert.deepEqual(valueTicks(70_000, 4), [0, 20_000, 40_000, 60_000, 80_000]);
});

test("times have round ticks in the viewer's zone", () => {
  const from = new Date(2026, 10, 24, 9, 7).getTime();
  assert.deepEqual(timeTicks(from, from + 3_600_000, 5).map((tick) => tick.label), ["09:15", "09:30", "09:45", "10:00"]);
  const days = timeTicks(from, from + 7 * 86_400_000, 8).map((tick) => tick.label);
  assert.deepEqual(days, ["25 Nov", "26 Nov", "27 Nov", "28 Nov", "29 Nov", "30 Nov", "1 Dec"]);
});

const frame: Frame = { from: 0, to: 100, most: 10, width: 100, height: 50 };

test("lines, and areas below them", () => {
  const points = [{ time: 0, value: 0 }, { time: 50, value: 10 }, { time: 100, value: 5 }];
  assert.equal(linePath(frame, points), "M0 50L50 0L100 25");
  assert.equal(areaPath(frame, points), "M0 50L50 0L100 25L100 50L0 50Z");
  assert.equal(areaPath(frame, []), "");
});

test("of many points the extremes are drawn", () => {
  const points = Array.from({ length: 10_000 }, (_, index) => ({ time: index / 100, value: index === 5_432 ? 10 : 1 }));
  const path = linePath(frame, points);
  assert.ok(path.split("L").length <= 201);
  assert.ok(path.includes(" 0L") || path.endsWith(" 0"), "the peak is drawn");
});

test("a line is interrupted where nothing is known", () => {
  const times = [0, 10, 20, 200, 210];
  assert.deepEqual(parts(times.map((time) => ({ time, value: 1 }))).map((part) => part.length), [3, 2]);
  assert.deepEqual(parts([]), []);
});

test("the nearest time", () => {
  assert.equal(nearest([0, 10, 20], 14), 1);
  assert.equal(nearest([0, 10, 20], 16), 2);
  assert.equal(nearest([0, 10, 20], -5), 0);
  assert.equal(nearest([0, 10, 20], 99), 2);
});
