// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import type { Explanation, Plan, Remedy, Waiting } from "../api";
import { counted, list, sentence } from "../format";
import { useCollection } from "../page";
import { approvalOf, isProposed } from "../plan";
import { isApplicable } from "../remedies";
import { links } from "../route";
import { ActionQuestion } from "./Actions";
import { Command } from "./Copy";

interface Name {
  namespace: string;
  name: string;
}

/** What would let something start that waits, in a sentence, with buttons for what can be done here. */
export function WaitingHelp({ waiting }: { waiting: Waiting }): JSX.Element {
  const remedies = list(waiting.remedies ?? waiting.waitingReason?.remedies).filter(isApplicable);
  return (
    <>
      {waiting.help && <span class="help">{sentence(waiting.help)}</span>}
      {waiting.kind === "GPUTask" && <ApprovePlan task={waiting} />}
      {waiting.kind === "GPUTask" && waiting.help && (
        <div class="remedies">
          {remedies.length > 0 ? "Edit in What if:" : <EditLink task={waiting} />}
          {remedies.map((remedy) => <EditLink key={remedy.kind} task={waiting} remedy={remedy}>{remedy.message}</EditLink>)}
        </div>
      )}
      <Commands commands={waiting.verdict?.commands} />
    </>
  );
}

/** What would let a task start, with buttons for what can be done here. */
export function TaskHelp({ explanation, task }: { explanation: Explanation; task: Name }): JSX.Element {
  return (
    <>
      <ApprovePlan task={task} />
      <Remedies remedies={explanation.remedies} act={(remedy) => isApplicable(remedy) && <EditLink task={task} remedy={remedy} />} />
      {list(explanation.commands).length > 0 && <h3>Try</h3>}
      <Commands commands={explanation.commands} />
    </>
  );
}

/** Remedies, each with what can be done about it. */
export function Remedies({ remedies, act }: { remedies: readonly Remedy[] | undefined; act: (remedy: Remedy) => JSX.Element | false }): JSX.Element | null {
  const all = list(remedies);
  if (all.length === 0) return null;
  return (
    <>
      <h3>{all.length === 1 ? "It would start" : "Each of these alone would let it start"}</h3>
      <ul class="sentences remedy-list">{all.map((remedy) => <li key={remedy.message}>{remedy.message} {act(remedy)}</li>)}</ul>
    </>
  );
}

/** Commands that show what blocks something, or mend it. */
function Commands({ commands }: { commands: readonly string[] | undefined }): JSX.Element {
  return <>{list(commands).map((command) => <Command key={command} text={command} />)}</>;
}

/** Leads to the manifest of a task, with a remedy applied. */
function EditLink({ task, remedy, children }: { task: Name; remedy?: Remedy; children?: ComponentChildren }): JSX.Element {
  return (
    <a class="button" aria-label={`Edit in What if${remedy ? ", " + remedy.message : ""}`} href={links.whatIfFrom(task.namespace, task.name, remedy)}>
      {children ?? "Edit in What if"}
    </a>
  );
}

/** A button for the plan that makes room for a task and waits for somebody to approve it; nothing without one. */
function ApprovePlan({ task }: { task: Name }): JSX.Element | null {
  const plans = useCollection("plans");
  const [asked, setAsked] = useState<Plan>();
  const plan = [...plans.rows.values()].find((one) => one.for === `${task.namespace}/${task.name}` && isProposed(one));
  if (!plan && !asked) return null;
  return (
    <div class="remedies">
      {plan && <button type="button" class="primary" onClick={() => setAsked(plan)}>Approve plan {plan.name}</button>}
      {plan && <a href={links.plan(plan.name)}>which moves {counted(list(plan.moves).length, "running Pod")} for it</a>}
      {asked && <ActionQuestion action={approvalOf(asked)} path={`plans/${encodeURIComponent(asked.name)}`} uid={asked.uid} onClose={() => setAsked(undefined)} />}
    </div>
  );
}
