// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import type { Phase, Task } from "../api";
import { compareNames, counted, list } from "../format";
import { useCollection } from "../page";
import { PhaseBadge } from "../parts/Badge";
import { Choice } from "../parts/Choice";
import { Empty } from "../parts/Notes";
import { Pages } from "../parts/Pages";
import { Time } from "../parts/Time";
import { links } from "../route";

const perPage = 100;
const allPhases: readonly Phase[] = ["Waiting", "Pending", "Running", "Suspended", "Failed", "Succeeded"];
const ranks: Record<Phase, number> = { Waiting: 0, Pending: 0, "": 0, Running: 1, Suspended: 2, Failed: 3, Succeeded: 3 };

export function TasksView(): JSX.Element {
  const tasks = useCollection("tasks");
  const [text, setText] = useState("");
  const [namespace, setNamespace] = useState("");
  const [phase, setPhase] = useState("");
  const [page, setPage] = useState(0);
  const namespaces = useMemo(() => [...new Set([...tasks.rows.values()].map((task) => task.namespace))].sort(compareNames), [tasks.changes]);
  const found = useMemo(() => select(tasks.rows.values(), text, namespace, phase), [tasks.changes, text, namespace, phase]);
  const shown = Math.min(page, Math.max(0, Math.ceil(found.length / perPage) - 1));
  const from = <T,>(set: (value: T) => void) => (value: T) => { set(value); setPage(0); };
  return (
    <>
      <h1>Tasks</h1>
      <section class="card" aria-label="Tasks">
        <form class="toolbar" role="search" aria-label="Tasks" onSubmit={(event) => event.preventDefault()}>
          <label class="field grow">
            <span>Find</span>
            <input type="search" value={text} placeholder="name, node, GPU model or queue" onInput={(event) => from(setText)(event.currentTarget.value)} />
          </label>
          <Choice label="Namespace" value={namespace} onChange={from(setNamespace)} options={[{ value: "", label: "All" }, ...namespaces.map((name) => ({ value: name, label: name }))]} />
          <Choice label="Phase" value={phase} onChange={from(setPhase)} options={[{ value: "", label: "All" }, ...allPhases.map((name) => ({ value: name as string, label: name as string }))]} />
          <p class="count" role="status">{counted(found.length, "task")}</p>
        </form>
        {found.length > 0 ? <TaskTable tasks={found.slice(shown * perPage, (shown + 1) * perPage)} /> : (
          <Empty>{tasks.rows.size === 0 ? "There are no tasks that you may see. kubectl gputask run NAME creates one." : "No task matches."}</Empty>
        )}
        <Pages page={shown} perPage={perPage} count={found.length} what="tasks" onPage={setPage} />
      </section>
    </>
  );
}

function TaskTable({ tasks }: { tasks: readonly Task[] }): JSX.Element {
  return (
    <div class="table-scroll" tabIndex={0} role="group" aria-label="Tasks">
      <table class="tasks">
        <caption class="visually-hidden">Tasks: those that wait, then those that run, then those that have finished, the newest first</caption>
        <thead>
          <tr><th scope="col">Phase</th><th scope="col">Name</th><th scope="col">Asks for</th><th scope="col" class="numeric">Pods</th><th scope="col">Created</th><th scope="col">Message</th></tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <tr key={`${task.namespace}/${task.name}`}>
              <td><PhaseBadge phase={task.phase} /></td>
              <th scope="row"><a class="name" href={links.task(task.namespace, task.name)}>{task.namespace}/{task.name}</a>{task.queue && <small>queue {task.queue}</small>}</th>
              <td><span class="nowrap">{task.asks}</span>{task.gpu && <small>of {task.gpu}</small>}</td>
              <td class="numeric nowrap">{task.podsNow}</td>
              <td class="nowrap"><Time at={task.created} /></td>
              <td class="message">{task.message || "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What a task asks for, in words. */
export function asksFor(task: Task): string {
  return `${task.asks}${task.gpu ? ` ${task.profile ? "on" : "of"} ${task.gpu}` : ""}`;
}

function select(all: Iterable<Task>, text: string, namespace: string, phase: string): Task[] {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const found = [...all].filter((task) => (namespace === "" || task.namespace === namespace) && (phase === "" || task.phase === phase)
    && words.every((word) => searchText(task).includes(word)));
  return found.sort((a, b) => ranks[a.phase] - ranks[b.phase] || newestFirst(a, b) || compareNames(a.name, b.name));
}

function newestFirst(a: Task, b: Task): number {
  const timeA = a.finished ?? a.created;
  const timeB = b.finished ?? b.created;
  return timeA < timeB ? 1 : timeA > timeB ? -1 : 0;
}

const searchTexts = new WeakMap<Task, string>();

function searchText(task: Task): string {
  let text = searchTexts.get(task);
  if (text === undefined) {
    text = [`${task.namespace}/${task.name}`, task.gpu ?? "", task.queue ?? "", ...list(task.nodes)].join("\n").toLowerCase();
    searchTexts.set(task, text);
  }
  return text;
}
