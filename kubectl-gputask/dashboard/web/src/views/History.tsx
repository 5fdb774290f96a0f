// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import type { History, Sample } from "../api";
import { absolute, list } from "../format";
import { mergeSamples, summaryOf } from "../samples";
import { useCollection, useFetched, useKept } from "../page";
import { Chart, type Series } from "../parts/Chart";
import { Segments } from "../parts/Choice";
import { MomentTable } from "../parts/MomentTable";
import { Empty, Failed, Loading } from "../parts/Notes";
import type { Dimension } from "../split";
import { Split } from "./Split";

type Hours = "1" | "6" | "24" | "168";

const spans: { value: Hours; label: string }[] = [
  { value: "1", label: "1 h" }, { value: "6", label: "6 h" }, { value: "24", label: "24 h" }, { value: "168", label: "7 d" },
];

const use: Series<Sample>[] = [
  { label: "Total", class: "total", value: (sample) => sample.total },
  { label: "Allocated", class: "allocated", fill: true, value: (sample) => sample.allocated },
];

const trouble: Series<Sample>[] = [
  { label: "Requested", class: "waited", value: (sample) => sample.waiting },
  { label: "Stranded", class: "stranded", value: (sample) => sample.stranded },
  { label: "Unhealthy", class: "unhealthy", value: (sample) => sample.unhealthy },
];

const columns = [...use, ...trouble];

const dimensions: { value: Dimension; label: string }[] = [
  { value: "cluster", label: "Whole cluster" }, { value: "queue", label: "Queue" }, { value: "model", label: "GPU model" }, { value: "namespace", label: "Team (namespace)" },
];

export function HistoryView(): JSX.Element {
  const [hours, setHours] = useKept<Hours>("hours", "1");
  const [dimension, setDimension] = useKept<Dimension>("dimension", "cluster");
  return (
    <>
      <div class="title-line">
        <h1>History</h1>
        <Segments label="By" value={dimension} options={dimensions} onChange={setDimension} />
        <Segments label="Time span" value={hours} options={spans} onChange={setHours} />
      </div>
      {dimension === "cluster" && <Cluster hours={hours} />}
      <Split key={dimension} dimension={dimension} hours={hours} />
    </>
  );
}

function Cluster({ hours }: { hours: Hours }): JSX.Element {
  const history = useFetched<History>(`history?hours=${hours}`);
  const live = useCollection("samples");
  const samples = useMemo(
    () => mergeSamples(list(history.value?.samples), live.rows.values(), Number(hours), Date.now()),
    [history.value, live.changes, hours],
  );
  return (
    <>
      <Failed message={history.error} />
      {history.value && <Source history={history.value} first={samples[0]?.time} />}
      {!history.value && history.error === "" ? <Loading what="the history" /> : samples.length < 2
        ? <Empty>Not enough data yet. The charts will appear in a moment.</Empty>
        : <Curves samples={samples} />}
    </>
  );
}

/** Where curves come from; from the page's server, since when there are some. */
export function Source({ history, first }: { history: Pick<History, "source" | "trouble">; first: string | undefined }): JSX.Element {
  return (
    <>
      <p class="lead">
        {history.source === "prometheus" ? "From Prometheus." : first ? <>Recorded by this page's server since {absolute(new Date(first))}.</> : "Recorded by this page's server."}
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
        <h2 id="trouble">Requested, stranded and unhealthy GPUs</h2>
        <Chart samples={samples} series={trouble} label="Requested, stranded and unhealthy GPUs over time." pointer={pointer} onPointer={setPointer} />
      </section>
      <section class="card" aria-label="In words">
        <p>{summaryOf(samples)}</p>
        <MomentTable samples={samples} series={columns} what="History" />
      </section>
    </>
  );
}
