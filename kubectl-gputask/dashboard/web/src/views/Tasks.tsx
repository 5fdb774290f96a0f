// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import type { Phase, Task } from "../api";
import { compareNames, counted, firstSentence, number } from "../format";
import { useCollection, useQuery, useTaskNames, useTick } from "../page";
import { PhaseBadge } from "../parts/Badge";
import { BulkActions } from "../parts/BulkActions";
import { Choice } from "../parts/Choice";
import { Empty } from "../parts/Notes";
import { Pages } from "../parts/Pages";
import { Table } from "../parts/Table";
import { Time } from "../parts/Time";
import { links } from "../route";
import { filterOf, nextSort, selectTasks, sortText, type SortKey, type TaskFilter } from "../tasks";

const perPage = 100;
const allPhases: readonly Phase[] = ["Waiting", "Pending", "Running", "Suspended", "Failed", "Succeeded"];
/** Verdicts on tasks that don't just wait for their turn. */
const verdicts: Record<string, string> = { Blocked: "Blocked", NeverFits: "Never fits" };
const sortings: { value: SortKey; label: string }[] = [
  { value: "state", label: "State" }, { value: "name", label: "Name" }, { value: "asks", label: "Asks for" }, { value: "created", label: "Created" },
];

export function TasksView(): JSX.Element {
  const tasks = useCollection("tasks");
  const waiting = useCollection("waiting");
  const [query, change] = useQuery();
  const [page, setPage] = useState(0);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const tick = useTick(60); // what has finished becomes old
  const filter = filterOf(query);
  const verdictOf = (task: Task) => waiting.rows.get(`GPUTask ${task.namespace}/${task.name}`)?.verdict?.kind ?? "";
  const namespaces = useMemo(() => [...new Set([...tasks.rows.values()].map((task) => task.namespace))].sort(compareNames), [tasks.keyChanges]);
  const { found, hidden } = useMemo(
    () => selectTasks(tasks.rows.values(), filter, verdictOf, Date.now()), [tasks.changes, waiting.changes, query.toString(), tick],
  );
  const shown = Math.min(page, Math.max(0, Math.ceil(found.length / perPage) - 1));
  const rows = found.slice(shown * perPage, (shown + 1) * perPage);
  const chosen = found.filter((task) => selected.has(task.uid));
  const set = (name: string) => (value: string) => { change({ [name]: value }); setPage(0); };
  return (
    <>
      <h1>Tasks</h1>
      <section class="card" aria-label="Tasks">
        <form class="toolbar" role="search" aria-label="Tasks" onSubmit={(event) => event.preventDefault()}>
          <label class="field grow">
            <span>Find</span>
            <input type="search" value={filter.text} placeholder="name, label, node, GPU model or queue" onInput={(event) => set("find")(event.currentTarget.value)} />
          </label>
          {namespaces.length > 1 && <Choice label="Namespace" value={filter.namespace} onChange={set("namespace")} options={[{ value: "", label: "All" }, ...namespaces.map((name) => ({ value: name, label: name }))]} />}
          <Choice label="State" value={filter.state} onChange={set("state")} options={[
            { value: "", label: "All" }, ...allPhases.map((name) => ({ value: name as string, label: name as string })), ...Object.entries(verdicts).map(([value, label]) => ({ value, label })),
          ]} />
          <div class="narrow-only"><Choice label="Sort by" value={filter.sort} options={sortings} onChange={(key) => change({ sort: nextSort(filter, key) })} /></div>
          <p class="count" role="status">{counted(found.length, "task")}</p>
        </form>
        <BulkActions tasks={chosen} onClear={() => setSelected(new Set())} />
        {rows.length > 0 ? <TaskTable tasks={rows} filter={filter} verdictOf={verdictOf} selected={selected} onSelect={setSelected} onSort={(key) => change({ sort: nextSort(filter, key) })} /> : (
          <Empty>{tasks.rows.size === 0 ? "There are no tasks that you may see. kubectl gputask run NAME creates one." : hidden > 0 ? "Nothing waits or runs." : "No task matches."}</Empty>
        )}
        <Pages page={shown} perPage={perPage} count={found.length} what="tasks" onPage={setPage} />
        {hidden > 0 && <p class="more"><button type="button" onClick={() => change({ finished: "all" })}>Show {number(hidden)} finished</button> <span class="muted">more than an hour ago</span></p>}
        {filter.all && <p class="more"><button type="button" onClick={() => change({ finished: "" })}>Hide what finished more than an hour ago</button></p>}
      </section>
    </>
  );
}

interface TaskTableProps {
  tasks: readonly Task[];
  filter: TaskFilter;
  verdictOf: (task: Task) => string;
  /** The UIDs of the selected tasks: another task of the same name is not selected. */
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
  onSort: (key: SortKey) => void;
}

function TaskTable({ tasks, filter, verdictOf, selected, onSelect, onSort }: TaskTableProps): JSX.Element {
  const nameOf = useTaskNames();
  const all = tasks.every((task) => selected.has(task.uid));
  const select = (some: readonly Task[], wanted: boolean) => {
    const next = new Set(selected);
    for (const { uid } of some) {
      if (wanted) next.add(uid);
      else next.delete(uid);
    }
    onSelect(next);
  };
  const heading = (key: SortKey, label: string) => <Sortable label={label} filter={filter} sort={key} onSort={onSort} />;
  return (
    <Table label="Tasks" class="tasks">
      <caption class="visually-hidden">Tasks{sortText(filter.sort, filter.descending) === "" && ": those that wait, then those that run, then those that have failed, then the others, the newest first"}</caption>
      <thead>
        <tr>
          <th scope="col"><input type="checkbox" aria-label={`Select these ${counted(tasks.length, "task")}`} checked={all} onChange={() => select(tasks, !all)} /></th>
          {heading("state", "State")}{heading("name", "Name")}{heading("asks", "Asks for")}
          <th scope="col" class="numeric">Pods</th>{heading("created", "Created")}<th scope="col">Message</th>
        </tr>
      </thead>
      <tbody>
        {tasks.map((task) => (
          <tr key={`${task.namespace}/${task.name}`}>
            <td class="pick"><input type="checkbox" aria-label={`Select ${nameOf(task.namespace, task.name)}`} checked={selected.has(task.uid)} onChange={() => select([task], !selected.has(task.uid))} /></td>
            <td class="state"><PhaseBadge phase={task.phase} />{verdicts[verdictOf(task)] && <small class="bad">{verdicts[verdictOf(task)]}</small>}</td>
            <th scope="row"><a class="name" href={links.task(task.namespace, task.name)}>{nameOf(task.namespace, task.name)}</a>{task.queue && <small>queue {task.queue}</small>}</th>
            <td><span class="nowrap">{task.asks}</span>{task.gpu && <small>of {task.gpu}</small>}</td>
            <td class="numeric nowrap">{task.podsNow}</td>
            <td class="nowrap"><Time at={task.created} /></td>
            <td class="message why"><Message text={task.message ?? ""} /></td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function Sortable({ label, sort, filter, onSort }: { label: string; sort: SortKey; filter: TaskFilter; onSort: (key: SortKey) => void }): JSX.Element {
  const order = filter.sort !== sort ? "none" : filter.descending ? "descending" : "ascending";
  return <th scope="col" aria-sort={order}><button type="button" class="sort" onClick={() => onSort(sort)}>{label}</button></th>;
}

/** A message's first sentence; the rest on demand. */
function Message({ text }: { text: string }): JSX.Element {
  const [first, rest] = firstSentence(text);
  if (rest === "") return <>{first || "–"}</>;
  return <details><summary>{first} …</summary>{rest}</details>;
}

/** What a task asks for, in words. */
export function asksFor(task: Task): string {
  return `${task.asks}${task.gpu ? ` ${task.profile ? "on" : "of"} ${task.gpu}` : ""}`;
}
