// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import type { History, Sample } from "../api";
import { absolute, gpus, list, number } from "../format";
import { mergeSamples, summaryOf } from "../samples";
import { useCollection, useFetched, useKept } from "../page";
import { Chart, type Series } from "../parts/Chart";
import { Segments } from "../parts/Choice";
import { Empty, Failed, Loading } from "../parts/Notes";
import { Pages } from "../parts/Pages";
import { Table } from "../parts/Table";
import { Time } from "../parts/Time";

type Hours = "1" | "6" | "24" | "168";

const spans: { value: Hours; label: string }[] = [
  { value: "1", label: "1 h" }, { value: "6", label: "6 h" }, { value: "24", label: "24 h" }, { value: "168", label: "7 d" },
];

const use: Series[] = [
  { label: "Total", class: "total", value: (sample) => sample.total },
  { label: "Allocated", class: "allocated", fill: true, value: (sample) => sample.allocated },
];

const trouble: Series[] = [
  { label: "Waited for", class: "waited", value: (sample) => sample.waiting },
  { label: "Stranded", class: "stranded", value: (sample) => sample.stranded },
  { label: "Unhealthy", class: "unhealthy", value: (sample) => sample.unhealthy },
];

export function HistoryView(): JSX.Element {
  const [hours, setHours] = useKept<Hours>("hours", "1");
  const history = useFetched<History>(`history?hours=${hours}`);
  const live = useCollection("samples");
  const samples = useMemo(
    () => mergeSamples(list(history.value?.samples), live.rows.values(), Number(hours), Date.now()),
    [history.value, live.changes, hours],
  );
  return (
    <>
      <div class="title-line">
        <h1>History</h1>
        <Segments label="Time span" value={hours} options={spans} onChange={setHours} />
      </div>
      <Failed message={history.error} />
      {history.value && <Source history={history.value} first={samples[0]} />}
      {!history.value && history.error === "" ? <Loading what="the history" /> : samples.length < 2
        ? <Empty>There is too little to draw yet. The curves begin to grow in a moment.</Empty>
        : <Curves samples={samples} />}
    </>
  );
}

function Source({ history, first }: { history: History; first: Sample | undefined }): JSX.Element {
  return (
    <>
      <p class="lead">
        {history.source === "prometheus" ? "From Prometheus." : first ? <>Recorded by this page's server since {absolute(new Date(first.time))}.</> : "Recorded by this page's server."}
      </p>
      {history.trouble && <p class="note attention">Prometheus did not answer: {history.trouble}</p>}
    </>
  );
}

function Curves({ samples }: { samples: readonly Sample[] }): JSX.Element {
  const [pointer, setPointer] = useState<number>();
  return (
    <>
      <section class="card" aria-labelledby="use">
        <h2 id="use">GPUs in use</h2>
        <Chart samples={samples} series={use} label={summaryOf(samples)} pointer={pointer} onPointer={setPointer} />
      </section>
      <section class="card" aria-labelledby="trouble">
        <h2 id="trouble">GPUs that are waited for, stranded or unhealthy</h2>
        <Chart samples={samples} series={trouble} label="GPUs that are waited for, stranded or unhealthy over time." pointer={pointer} onPointer={setPointer} />
      </section>
      <section class="card" aria-label="In words">
        <p>{summaryOf(samples)}</p>
        <SampleTable samples={samples} />
      </section>
    </>
  );
}

const perPage = 50;

function SampleTable({ samples }: { samples: readonly Sample[] }): JSX.Element {
  const [open, setOpen] = useState(false);
  const [page, setPage] = useState(0);
  const newest = useMemo(() => (open ? [...samples].reverse() : []), [samples, open]);
  const shown = Math.min(page, Math.max(0, Math.ceil(newest.length / perPage) - 1));
  return (
    <details class="as-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>History as a table</summary>
      {open && (
        <>
          <Table label="History as a table">
            <caption class="visually-hidden">GPUs over time, the newest first</caption>
            <thead>
              <tr><th scope="col">Time</th><th scope="col" class="numeric">Total</th><th scope="col" class="numeric">Allocated</th><th scope="col" class="numeric">Waited for</th><th scope="col" class="numeric">Stranded</th><th scope="col" class="numeric">Unhealthy</th></tr>
            </thead>
            <tbody>
              {newest.slice(shown * perPage, (shown + 1) * perPage).map((sample) => (
                <tr key={sample.time}>
                  <th scope="row"><Time at={sample.time} /></th>
                  {[sample.total, sample.allocated, sample.waiting, sample.stranded, sample.unhealthy].map((value, index) => <td key={index} class="numeric" title={gpus(value)}>{number(value)}</td>)}
                </tr>
              ))}
            </tbody>
          </Table>
          <Pages page={shown} perPage={perPage} count={newest.length} what="moments" onPage={setPage} />
        </>
      )}
    </details>
  );
}
