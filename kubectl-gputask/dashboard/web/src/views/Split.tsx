// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import type { Curves, SplitHistory, SplitRow } from "../api";
import { clockTime, duration, list, number } from "../format";
import { useFetched, useTick } from "../page";
import { Chart } from "../parts/Chart";
import { MomentTable } from "../parts/MomentTable";
import { Empty, Failed, Loading, Note } from "../parts/Notes";
import { Table } from "../parts/Table";
import { headings, momentsOf, partName, seriesOf, splitSummary, type Dimension } from "../split";
import { Source } from "./History";

/** As often as the curves grow and the books are written. */
const refreshAfter = 60;

/** How the GPUs were used in one dimension: curves, and a table of the time span. */
export function Split({ dimension, hours }: { dimension: Dimension; hours: string }): JSX.Element {
  const tick = useTick(refreshAfter);
  const history = useFetched<SplitHistory>(`history/${dimension}?hours=${hours}`, tick, 0);
  const { value, error } = history;
  if (!value) return <><Failed message={error} />{error === "" && <Loading what="the usage" />}</>;
  return (
    <>
      <Failed message={error} />
      {dimension !== "cluster" && <Source history={value} first={value.curves.times?.[0]} />}
      {dimension !== "cluster" && <CurvesCard dimension={dimension} curves={value.curves} missing={value.missing} />}
      <section class="card" aria-labelledby="usage">
        <h2 id="usage">GPU-hours and waiting times</h2>
        <UsageTable dimension={dimension} rows={list(value.rows)} />
        <Counted history={value} />
      </section>
    </>
  );
}

function CurvesCard({ dimension, curves, missing }: { dimension: Dimension; curves: Curves; missing: string | undefined }): JSX.Element {
  const [pointer, setPointer] = useState<number>();
  const moments = useMemo(() => momentsOf(curves), [curves]);
  const series = useMemo(() => seriesOf(dimension, curves), [dimension, curves]);
  return (
    <section class="card" aria-labelledby="split">
      <h2 id="split">GPUs allocated</h2>
      {missing ? <Note>Prometheus has no such history of this time. It would be made of {missing}.</Note>
        : moments.length < 2 ? <Empty>Not enough data yet. The charts grow once a minute.</Empty>
        : series.length === 0 ? <Empty>No GPUs were allocated in this time.</Empty>
        : (
          <>
            <Chart samples={moments} series={series} label={splitSummary(dimension, curves)} pointer={pointer} onPointer={setPointer} />
            <MomentTable samples={moments} series={series} what="Curves" />
          </>
        )}
    </section>
  );
}

function UsageTable({ dimension, rows }: { dimension: Dimension; rows: readonly SplitRow[] }): JSX.Element {
  if (rows.length === 0) return <Empty>No GPUs were used or requested in this time.</Empty>;
  return (
    <Table label="GPU-hours and waiting times">
      <caption class="visually-hidden">GPU-hours, started tasks and waiting times in the time span, the most GPU-hours first</caption>
      <thead>
        <tr>
          <th scope="col">{headings[dimension] || <span class="visually-hidden">What</span>}</th><th scope="col" class="numeric">GPU-hours</th><th scope="col" class="numeric">Tasks started</th>
          <th scope="col" class="numeric">Median wait</th><th scope="col" class="numeric">95th percentile</th><th scope="col" class="numeric">GPUs requested now</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name}>
            <th scope="row">{partName(dimension, row.name)}</th>
            <td class="numeric">{row.gpuHours === undefined ? "–" : number(row.gpuHours)}</td>
            <td class="numeric">{number(row.started)}</td>
            <td class="numeric">{row.waits ? duration(row.waits.medianSeconds) : "–"}</td>
            <td class="numeric">{row.waits ? duration(row.waits.p95Seconds) : "–"}</td>
            <td class="numeric">{number(row.waiting)}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

/** Of which time the numbers are, and what they leave out. */
function Counted({ history }: { history: SplitHistory }): JSX.Element {
  const at = (time: string) => clockTime(new Date(time), new Date());
  return (
    <>
      {history.uncounted && <Note>No GPU-hours: {history.uncounted}</Note>}
      <p class="hint">
        {history.countedSince && history.countedUntil && <>GPU-hours are of whole hours: from {at(history.countedSince)} until {at(history.countedUntil)}. </>}
        {history.seenSince && <>Tasks and waiting times are those that this page's server has seen since {at(history.seenSince)}; of earlier starts it knows only some. </>}
        A task waits from when its Pods may be created until it first runs.
      </p>
    </>
  );
}
