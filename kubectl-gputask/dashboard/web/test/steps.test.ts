// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { gpuSteps, podSteps, stepAt, stepFrom } from "../src/steps";

test("a slider stands at the last step that is not above the value", () => {
  const steps = gpuSteps(8);
  assert.equal(steps[stepAt(steps, "0.5")], "0.5");
  assert.equal(steps[stepAt(steps, "3")], "3");
  assert.equal(steps[stepAt(steps, "0.6")], "0.5");
  assert.equal(steps[stepAt(steps, "16")], "8");
  assert.equal(stepAt(steps, "0.1"), 0);
  assert.equal(stepAt(steps, "many"), 0);
});

test("buttons go to the next step, and beyond the last one", () => {
  const steps = gpuSteps(8);
  assert.equal(stepFrom(steps, "1", -1), "0.75");
  assert.equal(stepFrom(steps, "0.3", 1), "0.5");
  assert.equal(stepFrom(steps, "0.25", -1), "0.25");
  assert.equal(stepFrom(steps, "8", 1), "9");
  assert.equal(stepFrom(steps, "16", -1), "15");
  assert.equal(stepFrom(podSteps(4), "1", -1), "1");
  assert.equal(stepFrom(podSteps(4), "5", -1), "4");
});
