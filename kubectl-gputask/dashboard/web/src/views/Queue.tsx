// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import type { Estimate, Waiting } from "../api";
import { counted, gpus, number, sentence } from "../format";
import { useCollection, useSummary } from "../page";
import { WaitingHelp } from "../parts/Help";
import { Empty } from "../parts/Notes";
import { Pages } from "../parts/Pages";
import { Table } from "../parts/Table";
import { Clock, Lasted } from "../parts/Time";
import { Queues } from "./Queues";
import { WaitingName } from "./WaitingName";

const perPage = 100;

export function QueueView(): JSX.Element {
  const waiting = useCollection("waiting");
  const queues = useCollection("queues");
  const summary = useSummary();
  const [served, refused] = useMemo(() => split(waiting.rows.values()), [waiting.changes]);
  return (
    <>
      <h1>Queue</h1>
      <p class="lead">
        {served.length === 0 ? "No tasks are waiting for GPUs." : `${counted(served.length, "entry waits", "entries wait")} for ${gpus(summary?.waitingGPUs ?? "")}. Tried in this order${queues.rows.size === 0 ? ": by priority, then by age" : ""}. A task that doesn't fit yet lets later ones start if they won't delay it.`}
      </p>
      <section class="card" aria-labelledby="waiting">
        <h2 id="waiting">Waiting</h2>
        {served.length > 0 ? <WaitingTable all={served} /> : <Empty>All tasks have the GPUs that they asked for.</Empty>}
      </section>
      {refused.length > 0 && (
        <section class="card" aria-labelledby="refused">
          <h2 id="refused">Not served</h2>
          <p class="hint">These won't start until something is changed.</p>
          <WaitingTable all={refused} refused />
        </section>
      )}
      <Queues />
    </>
  );
}

function WaitingTable({ all, refused = false }: { all: readonly Waiting[]; refused?: boolean }): JSX.Element {
  const [page, setPage] = useState(0);
  const shown = Math.min(page, Math.max(0, Math.ceil(all.length / perPage) - 1));
  const label = refused ? "Not served" : "Waiting";
  return (
    <>
      <Table label={label} class="waiting">
        <caption class="visually-hidden">{label}, {refused ? "and why" : "in the order in which it is served"}</caption>
        <thead>
          <tr>
            {!refused && <th scope="col" class="numeric">Position</th>}
            <th scope="col">Name</th><th scope="col">Asks for</th><th scope="col">Waiting for</th>
            <th scope="col">Why, and what would help</th>{!refused && <th scope="col">Expected start</th>}
          </tr>
        </thead>
        <tbody>
          {all.slice(shown * perPage, (shown + 1) * perPage).map((waiting, index) => (
            <tr key={`${waiting.kind} ${waiting.namespace}/${waiting.name}`}>
              {!refused && <td class="numeric turn">{number(shown * perPage + index + 1)}</td>}
              <th scope="row"><WaitingName waiting={waiting} /><small>{queueText(waiting)}</small></th>
              <td><span class="nowrap">{gpus(waiting.gpus)}</span><small>{shapeText(waiting)}</small></td>
              <td class="nowrap"><Lasted from={waiting.since} /></td>
              <td class="why">{sentence(waiting.reason)} <WaitingHelp waiting={waiting} /></td>
              {!refused && <td class="start"><Expected estimate={waiting.estimatedStart} /></td>}
            </tr>
          ))}
        </tbody>
      </Table>
      <Pages page={shown} perPage={perPage} count={all.length} what="entries" onPage={setPage} />
    </>
  );
}

function Expected({ estimate }: { estimate: Estimate | undefined }): JSX.Element {
  if (!estimate) return <span class="muted">Unknown</span>;
  const { earliest, likely, latest, message, rough } = estimate;
  return (
    <>
      <span class="nowrap">{rough ? "roughly" : "about"} <Clock at={likely} /></span>
      {(earliest || latest) && earliest !== latest && (
        <small class="nowrap">
          {earliest && <>{latest ? "" : "from "}<Clock at={earliest} /></>}{earliest && latest && " to "}{latest && <>{earliest ? "" : "until "}<Clock at={latest} /></>}
        </small>
      )}
      {message && <small>{message}</small>}
    </>
  );
}

function queueText(waiting: Waiting): string {
  const priority = `priority ${waiting.priority}`;
  if (!waiting.queue) return priority;
  return waiting.position ? `place ${number(waiting.position)} in queue ${waiting.queue}, ${priority}` : `queue ${waiting.queue}, ${priority}`;
}

function shapeText(waiting: Waiting): string {
  const pods = waiting.pods === 1 ? "1 Pod" : `${number(waiting.pods)} Pods together`;
  return waiting.model ? `of ${waiting.model}, ${pods}` : `of any model, ${pods}`;
}

function split(all: Iterable<Waiting>): [Waiting[], Waiting[]] {
  const sorted = [...all].sort((a, b) => a.turn - b.turn);
  return [sorted.filter((waiting) => !waiting.refused), sorted.filter((waiting) => waiting.refused)];
}
