// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Action, Plan } from "./api";
import { counted, gpuTime, list } from "./format";

/** Whether a plan waits for somebody to approve it. */
export function isProposed(plan: Plan): boolean {
  return plan.phase === "Proposed" && !plan.approved && !plan.aborted;
}

export function isOver(plan: Plan): boolean {
  return plan.phase === "Done" || plan.phase === "Aborted";
}

/** What it costs; before, too, if that has changed: "3.9 GPU-minutes when proposed, 7.2 GPU-minutes now". */
export function costText(plan: Plan): string {
  const proposed = gpuTime(plan.costGPUSeconds);
  if (!plan.costNow || Math.abs(plan.costNow - plan.costGPUSeconds) < plan.costGPUSeconds / 10) return proposed;
  return `${proposed} when proposed, ${gpuTime(plan.costNow)} now`;
}

export function approvalOf(plan: Plan): Action {
  const moves = list(plan.moves).length;
  return {
    name: "approve", command: `kubectl gputask plan approve ${plan.name}`,
    question: `Approve the plan, so that ${counted(moves, "Pod is", "Pods are")} stopped and ${moves === 1 ? "starts" : "start"} again elsewhere, at a cost of ${costText(plan)}?`,
  };
}

export function actionsOf(plan: Plan): Action[] {
  if (plan.aborted || isOver(plan)) return [];
  const abort: Action = {
    name: "abort", command: `kubectl gputask plan abort ${plan.name}`,
    question: plan.phase === "Executing" ? "Abort the plan, so that nothing more is moved?" : "Abort the plan, so that nothing is moved?",
  };
  return !plan.approved && (plan.phase === "Proposed" || plan.phase === "") ? [approvalOf(plan), abort] : [abort];
}
