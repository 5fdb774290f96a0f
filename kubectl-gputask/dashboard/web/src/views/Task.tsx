// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from "preact";

import type { Condition, Event, Explanation, Task, TaskDetails } from "../api";
import { taskPath } from "../client";
import { list, number } from "../format";
import { useFetched, useRow } from "../page";
import { Actions } from "../parts/Actions";
import { PhaseBadge } from "../parts/Badge";
import { CopyButton } from "../parts/Copy";
import { Facts, Lines } from "../parts/Facts";
import { TaskHelp } from "../parts/Help";
import { Logs } from "../parts/Logs";
import { Empty, Failed, Loading } from "../parts/Notes";
import { Result } from "../parts/Result";
import { Time } from "../parts/Time";
import { Timeline } from "../parts/Timeline";
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
        <h1>{namespace}/{name}</h1>
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
  return (
    <>
      <Actions actions={list(details.actions)} path={path} uid={task.uid} onDone={reload} />
      <section class="card" aria-label="The task">
        <TaskFacts task={task} />
      </section>
      {details.explanation && <ExplanationCard explanation={details.explanation} task={task} />}
      <Card title="Timeline">{members.length > 0 ? <Timeline members={members} /> : <Empty>It has no Pods yet.</Empty>}</Card>
      <Card title="Logs">
        <Logs path={`${path}/logs`} members={members} />
      </Card>
      <Card title="Conditions"><Conditions conditions={list(details.conditions)} /></Card>
      <Card title="Events"><Events events={list(details.events)} /></Card>
      <section class="card" aria-label="Manifest">
        <details>
          <summary>Manifest</summary>
          <div class="manifest-tools">
            <CopyButton text={() => details.manifest} what="the manifest" />
            <a href={links.whatIfFrom(task.namespace, task.name)}>Ask what would become of a task with this manifest</a>
          </div>
          <pre class="manifest" tabIndex={0} role="group" aria-label="Manifest as YAML">{details.manifest}</pre>
        </details>
      </section>
    </>
  );
}

function Card({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  const id = `card-${title.toLowerCase()}`;
  return <section class="card" aria-labelledby={id}><h2 id={id}>{title}</h2>{children}</section>;
}

function TaskFacts({ task }: { task: Task }): JSX.Element {
  return (
    <Facts
      facts={[
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
      ]}
    />
  );
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

function ExplanationCard({ explanation, task }: { explanation: Explanation; task: Task }): JSX.Element {
  return (
    <section class="card" aria-labelledby="explanation">
      <h2 id="explanation">{explanation.headline}</h2>
      <Lines lines={explanation.lines} />
      <TaskHelp explanation={explanation} task={task} />
      <Result moves={explanation.moves} places={explanation.places} placed={explanation.placed} />
    </section>
  );
}

function Conditions({ conditions }: { conditions: readonly Condition[] }): JSX.Element {
  if (conditions.length === 0) return <Empty>None.</Empty>;
  return (
    <div class="table-scroll" tabIndex={0} role="group" aria-label="Conditions">
      <table>
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
      </table>
    </div>
  );
}

function Events({ events }: { events: readonly Event[] }): JSX.Element {
  if (events.length === 0) return <Empty>None. Kubernetes keeps Events for an hour by default.</Empty>;
  return (
    <div class="table-scroll" tabIndex={0} role="group" aria-label="Events">
      <table>
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
      </table>
    </div>
  );
}

/** Whether the explanation says all that a waiting task's own message does. */
function explains(details: TaskDetails | undefined): boolean {
  return details?.task.phase === "Pending" && details.explanation !== undefined && list(details.explanation.lines).length > 0;
}
