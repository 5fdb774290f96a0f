// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { Queue, QueueResource } from "../api";
import { gpus, list, number, shareUsed } from "../format";
import { useCollection } from "../page";
import { Note } from "../parts/Notes";
import { QueueBar } from "../parts/QueueBar";
import { Table } from "../parts/Table";

/** What each queue has, as a tree. */
export function Queues(): JSX.Element {
  const queues = useCollection("queues");
  const sorted = useMemo(() => [...queues.rows.values()].sort((a, b) => a.order - b.order), [queues.changes]);
  return (
    <section class="card" aria-labelledby="queues">
      <h2 id="queues">Queues</h2>
      {sorted.length === 0 ? <Note>There are no queues: tasks are served by priority, then by age.</Note> : (
        <>
          <p class="bar-legend" aria-hidden="true">
            <span><i class="bar-used" />used</span><span><i class="bar-borrowed" />borrowed</span>
            <span><i class="bar-guaranteed" />guaranteed</span><span><i class="bar-limit" />limit</span>
          </p>
          <Table label="Queues" class="queues">
            <caption class="visually-hidden">Used, allowed and requested GPUs of each queue</caption>
            <thead>
              <tr><th scope="col">Queue</th><th scope="col">GPUs</th><th scope="col">Fair share</th><th scope="col" class="numeric">Waiting</th><th scope="col" class="numeric">Running</th></tr>
            </thead>
            <tbody>{sorted.map((queue) => <Row key={queue.name} queue={queue} />)}</tbody>
          </Table>
        </>
      )}
    </section>
  );
}

function Row({ queue }: { queue: Queue }): JSX.Element {
  const part = `${number(queue.share * 100)}% of ${queue.parent ? queue.parent : "all"}`;
  return (
    <tr>
      <th scope="row">
        <span class="queue-name" style={{ paddingLeft: `${queue.depth * 1.25}rem` }}>
          {queue.depth > 0 && <span class="branch" aria-hidden="true">└ </span>}{queue.name}
        </span>
        {queue.problem && <small class="bad">{queue.problem}</small>}
      </th>
      <td>{list(queue.resources).length === 0 ? <span class="muted">None</span> : list(queue.resources).map((resource) => <Resource key={resource.gpu} resource={resource} queue={queue.name} />)}</td>
      <td>{capital(shareUsed(queue.factor))}<small>is due {part}</small></td>
      <td class="numeric">{number(queue.waiting)}</td>
      <td class="numeric">{number(queue.running)}</td>
    </tr>
  );
}

function Resource({ resource }: { resource: QueueResource; queue: string }): JSX.Element {
  const borrowed = Number(resource.borrowed) > 0 ? `, ${resource.borrowed} of them borrowed` : "";
  const waiting = Number(resource.waiting) > 0 ? `, waits for ${resource.waiting}` : "";
  return (
    <div class="resource">
      <span class="resource-name">{modelName(resource.gpu)}</span>
      <QueueBar resource={resource} />
      <small>uses {gpus(resource.used)}{borrowed}; guaranteed {resource.guaranteed}, {resource.limit ? `limit ${resource.limit}` : "no limit"}{waiting}</small>
    </div>
  );
}

function modelName(gpu: string): string {
  return gpu === "" || gpu === "*" ? "all models" : gpu;
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
