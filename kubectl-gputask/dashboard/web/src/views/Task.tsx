// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from "preact";

import type { Condition, Event, Explanation, Line, Plan, Task, TaskDetails } from "../api";
import { taskPath } from "../client";
import { counted, gpuTime, list, number } from "../format";
import { useCollection, useFetched, useRow, useTaskNames } from "../page";
import { Actions } from "../parts/Actions";
import { PhaseBadge } from "../parts/Badge";
import { CopyButton } from "../parts/Copy";
import { Facts, type Fact } from "../parts/Facts";
import { TaskHelp } from "../parts/Help";
import { Logs } from "../parts/Logs";
import { Empty, Failed, Loading } from "../parts/Notes";
import { Result } from "../parts/Result";
import { Table } from "../parts/Table";
import { Time } from "../parts/Time";
import { Timeline } from "../parts/Timeline";
import { isOver, isProposed } from "../plan";
import { links } from "../route";
import { asksFor } from "./Tasks";

export function TaskView({ namespace, name }: { namespace: string; name: string }): JSX.Element {
  const row = useRow("tasks", `${namespace}/${name}`);
  const path = taskPath(namespace, name);
  const details = useFetched<TaskDetails>(path, row?.version ?? "");
  // A task that has been deleted is not shown any more, nor what could be done with it.
  const isGone = !row && details.error !== "";
  const task = isGone ? undefined : row ?? details.value?.task;
  return (
    <>
      <p class="crumbs"><a href={links.tasks}>Tasks</a></p>
      <div class="title-line">
        <h1>{useTaskNames()(namespace, name)}</h1>
        {task && <PhaseBadge phase={task.phase} />}
      </div>
      {task?.message && !explains(details.value) && <p class="lead">{task.message}</p>}
      <Failed message={details.error} />
      {details.value && task ? <Details key={details.value.task.uid} details={details.value} task={task} path={path} reload={details.reload} />
        : details.error === "" && <Loading what="the task" />}
    </>
  );
}

function Details({ details, task, path, reload }: { details: TaskDetails; task: Task; path: string; reload: () => void }): JSX.Element {
  const members = list(details.members);
  const { explanation } = details;
  const answer = <Answer explanation={explanation} task={task} />;
  const pods = <Card title="Pods">{members.length > 0 ? <Timeline members={members} /> : <Empty>It has no Pods yet.</Empty>}</Card>;
  const logs = <Card title="Logs"><Logs path={`${path}/logs`} members={members} /></Card>;
  return (
    <>
      <Actions actions={list(details.actions)} path={path} uid={task.uid} onDone={reload} />
      {hasRun(task) ? <>{logs}{pods}{answer}</> : <>{answer}{pods}{logs}</>}
      {explanation && (list(explanation.places).length > 0 || list(explanation.moves).length > 0) && (
        <section class="card" aria-label="On the map"><Result moves={explanation.moves} places={explanation.places} placed={explanation.placed} /></section>
      )}
      <Folded title="Conditions" count={list(details.conditions).length}><Conditions conditions={list(details.conditions)} /></Folded>
      <Folded title="Events" count={list(details.events).length}><Events events={list(details.events)} /></Folded>
      <Folded title="Manifest">
        <div class="manifest-tools">
          <CopyButton text={() => details.manifest} what="the manifest" />
          <a href={links.whatIfFrom(task.namespace, task.name)}>Check a task with this manifest</a>
        </div>
        <pre class="manifest" tabIndex={0} role="group" aria-label="Manifest as YAML">{details.manifest}</pre>
      </Folded>
    </>
  );
}

/** Reports whether logs are what people look for first. */
function hasRun(task: Task): boolean {
  return task.phase === "Running" || task.phase === "Failed" || task.phase === "Succeeded";
}

/** Why the task is in its state, the plan that waits for somebody, what would help, and all else that is known of it. */
function Answer({ explanation, task }: { explanation: Explanation | undefined; task: Task }): JSX.Element {
  const plans = [...useCollection("plans").rows.values()].filter((plan) => plan.for === `${task.namespace}/${task.name}` && !isOver(plan));
  return (
    <section class="card" aria-labelledby="explanation">
      <h2 id="explanation" class="headline">{explanation?.headline ?? "The task"}</h2>
      {plans.filter((plan) => !isProposed(plan)).map((plan) => <PlanFor key={plan.name} plan={plan} />)}
      {explanation && <TaskHelp explanation={explanation} task={task} />}
      <p><a href={links.decisionsAbout(task.namespace, task.name)}>Decisions about this task</a></p>
      <TaskFacts task={task} lines={list(explanation?.lines).filter(({ label }) => label !== "Plan" || plans.length === 0)} />
    </section>
  );
}

/** A plan that is approved and makes room for the task. */
function PlanFor({ plan }: { plan: Plan }): JSX.Element {
  return (
    <p class="note attention">
      <span>
        A <a href={links.plan(plan.name)}>plan</a> makes room for it: {counted(list(plan.moves).length, "move")}, at a cost of {gpuTime(plan.costGPUSeconds)}.
      </span>
    </p>
  );
}

function Folded({ title, count, children }: { title: string; count?: number; children: ComponentChildren }): JSX.Element {
  return (
    <section class="card" aria-label={title}>
      <details><summary>{title}{count !== undefined && ` (${number(count)})`}</summary>{children}</details>
    </section>
  );
}

function Card({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  const id = `card-${title.toLowerCase()}`;
  return <section class="card" aria-labelledby={id}><h2 id={id}>{title}</h2>{children}</section>;
}

/** What the explanation says, and of the task what that leaves out. */
function TaskFacts({ task, lines }: { task: Task; lines: readonly Line[] }): JSX.Element {
  const told = new Set(lines.map(({ label }) => label));
  const more: (Fact | false)[] = [
    { label: "Asks for", value: asksFor(task) },
    { label: "Pods", value: task.podsNow },
    { label: "Priority", value: task.priority },
    { label: "Queue", value: task.queue },
    list(task.nodes).length > 0 && { label: list(task.nodes).length === 1 ? "Node" : "Nodes", value: <Nodes names={list(task.nodes)} /> },
    { label: "Created", value: <Time at={task.created} /> },
    task.started !== undefined && { label: "Started", value: <Time at={task.started} /> },
    task.finished !== undefined && { label: "Finished", value: <Time at={task.finished} /> },
    task.restarts > 0 && { label: "Restarts", value: number(task.restarts) },
    task.moves > 0 && { label: "Moves", value: number(task.moves) },
  ];
  return <Facts facts={[...lines.map(({ label, text }) => ({ label, value: text })), ...more.filter((fact) => fact && !told.has(fact.label))]} />;
}

function Nodes({ names }: { names: readonly string[] }): JSX.Element {
  const most = 8;
  return (
    <>
      {names.slice(0, most).map((name, index) => <span key={name}>{index > 0 && ", "}<a href={links.find(name)}>{name}</a></span>)}
      {names.length > most && ` and ${number(names.length - most)} more`}
    </>
  );
}

function Conditions({ conditions }: { conditions: readonly Condition[] }): JSX.Element {
  if (conditions.length === 0) return <Empty>None.</Empty>;
  return (
    <Table label="Conditions">
      <caption class="visually-hidden">Conditions of the task</caption>
      <thead><tr><th scope="col">Type</th><th scope="col">Status</th><th scope="col">Since</th><th scope="col">Reason</th><th scope="col">Message</th></tr></thead>
      <tbody>
        {conditions.map((condition) => (
          <tr key={condition.type}>
            <th scope="row">{condition.type}</th><td>{condition.status}</td><td class="nowrap"><Time at={condition.lastTransitionTime} /></td>
            <td>{condition.reason || "–"}</td><td class="message">{condition.message || "–"}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function Events({ events }: { events: readonly Event[] }): JSX.Element {
  if (events.length === 0) return <Empty>None. Kubernetes keeps Events for an hour by default.</Empty>;
  return (
    <Table label="Events">
      <caption class="visually-hidden">Events of the task and its Pods</caption>
      <thead><tr><th scope="col">Time</th><th scope="col">Type</th><th scope="col">Object</th><th scope="col">Reason</th><th scope="col">Message</th></tr></thead>
      <tbody>
        {events.map((event, index) => (
          <tr key={event.time + index} class={event.type === "Warning" ? "warning" : ""}>
            <td class="nowrap"><Time at={event.time} />{event.count > 1 && <small>{number(event.count)} times</small>}</td>
            <td>{event.type}</td><td>{event.object}</td><td>{event.reason}</td><td class="message">{event.message}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

/** Whether the explanation says all that a waiting task's own message does. */
function explains(details: TaskDetails | undefined): boolean {
  return (details?.task.phase === "Pending" || details?.task.phase === "Waiting") && list(details.explanation?.lines).length > 0;
}
