// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Task } from "./api";
import { counted } from "./format";

export const bulkActions = ["suspend", "resume", "rerun", "delete"] as const;

export type BulkAction = (typeof bulkActions)[number];

/** Reports whether an action makes sense for a task in its phase. The API server has the last word. */
export function isFor(action: BulkAction, { phase }: Task): boolean {
  const finished = phase === "Succeeded" || phase === "Failed";
  switch (action) {
    case "suspend":
      return !finished && phase !== "Suspended";
    case "resume":
      return phase === "Suspended";
    case "rerun":
      return finished;
    case "delete":
      return true;
  }
}

export function questionFor(action: BulkAction, count: number): string {
  const tasks = counted(count, "task");
  switch (action) {
    case "suspend":
      return `Suspend ${tasks}? ${count === 1 ? "Its" : "Their"} running Pods are deleted; what they have not saved is lost.`;
    case "resume":
      return `Resume ${tasks}, so that ${count === 1 ? "its" : "their"} Pods are created again?`;
    case "rerun":
      return `Create ${count === 1 ? "1 new task with the same spec" : `${tasks} with the same specs as these`}?`;
    case "delete":
      return `Delete ${tasks} and ${count === 1 ? "its" : "their"} Pods? This can't be undone.`;
  }
}

/** The commands that do the same: one for each namespace. */
export function commandFor(action: BulkAction, tasks: readonly Task[]): string {
  const commands = [...new Set(tasks.map((task) => task.namespace))].map((namespace) => {
    const names = tasks.filter((task) => task.namespace === namespace).map((task) => task.name);
    return `kubectl gputask ${action} ${names.join(" ")} --namespace ${namespace}`;
  });
  return commands.join("\n");
}

/** Changes tasks one after the other, until it shall stop, and returns those that could not be changed, with the reasons. */
export async function changeAll(
  tasks: readonly Task[], change: (task: Task) => Promise<unknown>, reasonOf: (error: unknown) => string, shallStop: () => boolean,
): Promise<{ task: Task; reason: string }[]> {
  const failed: { task: Task; reason: string }[] = [];
  for (const task of tasks) {
    if (shallStop()) break;
    try {
      await change(task);
    } catch (error) {
      failed.push({ task, reason: reasonOf(error) });
    }
  }
  return failed;
}
