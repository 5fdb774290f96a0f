// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Task } from "../api";
import { bulkActions, changeAll, commandFor, isFor, questionFor, type BulkAction } from "../bulk";
import { change, messageOf, taskPath } from "../client";
import { counted, number } from "../format";
import { grave, verbs } from "./Actions";
import { Question } from "./Question";

const done: Record<BulkAction, string> = { suspend: "being suspended", resume: "resumed", rerun: "run again", delete: "being deleted" };

/** What was asked. The last two change while it is answered. */
interface Asked {
  action: BulkAction;
  /** Those that were selected when the question was asked, and of them those that are still to be changed. */
  tasks: readonly Task[];
  left: readonly Task[];
  closed?: boolean;
}

/** Buttons that change all selected tasks at once; each asks once. A question stays, with what failed, when its tasks have gone. */
export function BulkActions({ tasks, onClear }: { tasks: readonly Task[]; onClear: () => void }): JSX.Element | null {
  const [asked, setAsked] = useState<Asked>();
  const confirm = async (all: Asked) => {
    const failed = await changeAll(all.left, (task) => change(taskPath(task.namespace, task.name, all.action), task.uid), messageOf, () => all.closed === true);
    all.left = failed.map(({ task }) => task);
    if (failed.length > 0) throw new Error(failed.map(({ task, reason }) => `${task.namespace}/${task.name}: ${reason}`).join("\n"));
    if (all.closed) return "The rest was left as it is.";
    onClear();
    return `${counted(all.tasks.length, "task")} ${all.tasks.length === 1 ? "is" : "are"} ${done[all.action]}.`;
  };
  const close = (all: Asked) => {
    all.closed = true;
    setAsked(undefined);
  };
  if (tasks.length === 0 && !asked) return null;
  return (
    <div class="bulk" role="group" aria-label="Selected tasks">
      <span role="status">{counted(tasks.length, "task")} selected</span>
      {bulkActions.map((action) => {
        const suitable = tasks.filter((task) => isFor(action, task));
        return suitable.length > 0 && (
          <button type="button" key={action} class={grave.has(action) ? "small grave" : "small"} onClick={() => setAsked({ action, tasks: suitable, left: suitable })}>
            {verbs[action]}{suitable.length < tasks.length && ` ${number(suitable.length)}`}
          </button>
        );
      })}
      <button type="button" class="small" onClick={onClear}>Clear</button>
      {asked && (
        <Question
          question={questionFor(asked.action, asked.tasks.length)} command={commandFor(asked.action, asked.tasks)} verb={verbs[asked.action]}
          grave={grave.has(asked.action)} onConfirm={() => confirm(asked)} onClose={() => close(asked)}
        />
      )}
    </div>
  );
}
