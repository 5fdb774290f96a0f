// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { momentsOf, partName, seriesOf, splitSummary } from "../src/split";

const curves = { times: ["2026-11-24T11:00:00Z", "2026-11-24T11:01:00Z"], series: [{ name: "vision", gpus: [4, 8] }, { name: "", gpus: [1, 0.5] }, { name: "(others)", gpus: [2, 3] }] };

test("each curve has its values, its own look and a name that people know", () => {
  const moments = momentsOf(curves);
  const series = seriesOf("queue", curves);
  assert.deepEqual(series.map((one) => [one.label, one.class, moments.map(one.value)]), [
    ["vision", "part-1", [4, 8]], ["No queue", "part-2", [1, 0.5]], ["Others", "part-others", [2, 3]],
  ]);
  assert.equal(splitSummary("queue", curves), "GPUs allocated over time. Now: vision 8, No queue 0.5, Others 3.");
});

test("without curves there are none", () => {
  const none = { times: null, series: null } as never; // as Go writes empty lists
  assert.deepEqual(momentsOf(none), []);
  assert.deepEqual(seriesOf("model", none), []);
});

test("some names have a meaning", () => {
  assert.equal(partName("model", "*"), "Any model");
  assert.equal(partName("model", ""), "Unknown model");
  assert.equal(partName("namespace", "team-a"), "team-a");
  assert.equal(partName("cluster", ""), "Whole cluster");
});
