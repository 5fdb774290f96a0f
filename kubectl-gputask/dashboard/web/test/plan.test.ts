// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Plan } from "../src/api";
import { actionsOf, isProposed } from "../src/plan";

const plan = { name: "p", phase: "Proposed", approved: false, aborted: false, costGPUSeconds: 120, costNow: 600, moves: [{}] } as Plan;

test("a plan can be approved while it is proposed, and aborted until it is over", () => {
  const names = (changes: Partial<Plan>) => actionsOf({ ...plan, ...changes }).map(({ name }) => name).join(" ");
  assert.equal(names({}), "approve abort");
  assert.equal(names({ approved: true }), "abort");
  assert.equal(names({ phase: "Executing", approved: true }), "abort");
  assert.equal(names({ aborted: true }), "");
  assert.equal(names({ phase: "Done" }), "");
});

test("only a plan that waits for somebody is one to approve", () => {
  assert.equal(isProposed(plan), true);
  for (const changes of [{ approved: true }, { aborted: true }, { phase: "Executing" as const }]) assert.equal(isProposed({ ...plan, ...changes }), false);
});

test("the question says what approving it costs now", () => {
  const [approval] = actionsOf(plan);
  assert.equal(approval?.question, "Approve the plan, so that 1 Pod is stopped and starts again elsewhere, at a cost of 2 GPU-minutes when proposed, 10 GPU-minutes now?");
  assert.equal(approval?.command, "kubectl gputask plan approve p");
});
