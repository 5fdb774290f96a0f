// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Decision } from "../src/api";
import { folded } from "../src/folds";

test("attempts that found no place are one, until something else is decided about the task", () => {
  const decide = (id: number, subject: string, outcome: string): Decision => ({
    id, subject, outcome, time: "", asks: "", why: "", candidates: 0, nodes: 0, digest: "", durationMicroseconds: 0,
  });
  const folds = folded([
    decide(7, "a", "Waits"), decide(6, "b", "Waits"), decide(5, "a", "Waits"), decide(4, "a", "Placed"), decide(3, "a", "Waits"),
    decide(2, "a", "Placed"), decide(1, "b", "Waits"),
  ]);
  assert.equal(folded([decide(3, "a", "Queued"), decide(2, "a", "Queued"), decide(1, "a", "Waits")]).length, 2);
  assert.equal(folded([decide(2, "a", "Placed"), decide(1, "a", "Placed")]).length, 2);
  assert.deepEqual(folds.map((fold) => [fold.decision.id, fold.ids]), [[7, [7, 5]], [6, [6, 1]], [4, [4]], [3, [3]], [2, [2]]]);
});
