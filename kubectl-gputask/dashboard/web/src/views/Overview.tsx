// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { Sum, Summary, Waiting } from "../api";
import { counted, gpus, list, number, sentence } from "../format";
import { byModel, wholeGPUs } from "../models";
import { useCollection } from "../page";
import { WaitingHelp } from "../parts/Help";
import { Lasted } from "../parts/Time";
import { links } from "../route";
import { WaitingName } from "./WaitingName";

/** The state of the cluster in a few large numbers. */
export function Numbers({ summary }: { summary: Summary }): JSX.Element {
  const { total } = summary;
  return (
    <ul class="numbers" aria-label="The cluster in numbers">
      <Big value={number(total.free)} unit={`of ${number(wholeGPUs(total))} ${total.divided ? "whole GPUs" : "GPUs"} free`} note={total.divided ? `and ${slicesFree(total)}` : ""} tone={total.free > 0 ? "good" : ""} />
      <Big value={summary.waitingGPUs} unit={`${summary.waitingGPUs === "1" ? "GPU" : "GPUs"} requested`} note={summary.waitingTasks > 0 ? `by ${counted(summary.waitingTasks, "waiting task")}` : ""} tone={summary.waitingTasks > 0 ? "attention" : ""} href={links.queue} />
      <Big value={number(summary.runningTasks)} unit={summary.runningTasks === 1 ? "task running" : "tasks running"} href={links.tasks} />
      <Big value={number(summary.strandedGPUs)} unit={`${summary.strandedGPUs === 1 ? "GPU" : "GPUs"} stranded`} note={summary.strandedFor ? `free, but of no use to Pods with ${summary.strandedFor}` : "free, but too scattered for use"} tone={summary.strandedGPUs > 0 ? "attention" : ""} />
      <Big value={number(total.unhealthy ?? 0)} unit={total.unhealthy === 1 ? "GPU unhealthy" : "GPUs unhealthy"} tone={total.unhealthy ? "bad" : ""} />
    </ul>
  );
}

function slicesFree(sum: Sum): string {
  return `${number(sum.freeSlices ?? 0)} of ${counted(sum.slices ?? 0, "MIG slice")} free`;
}

interface BigProps {
  value: string;
  unit: string;
  note?: string;
  tone?: string;
  href?: string;
}

function Big({ value, unit, note, tone, href }: BigProps): JSX.Element {
  const content = (
    <>
      <strong>{value}</strong> <span>{unit}</span>
      {note && <small>{note}</small>}
    </>
  );
  return <li class={tone ?? ""}>{href ? <a href={href}>{content}</a> : <div>{content}</div>}</li>;
}

/** Who is served first, why it still waits, and what would help. */
export function NextInLine(): JSX.Element {
  const waiting = useCollection("waiting");
  const served = useMemo(() => firstOf(waiting.rows.values(), mostNamed), [waiting.changes]);
  const [first, ...others] = served.first;
  if (!first) return <p class="next-in-line quiet">No tasks are waiting for GPUs.</p>;
  return (
    <div class="next-in-line">
      <strong>Next in the <a href={links.queue}>queue</a>:</strong>{" "}
      <WaitingName waiting={first} /> has waited <Lasted from={first.since} /> for {gpus(first.gpus)}{first.model ? ` of ${first.model}` : ""}.{" "}
      {sentence(first.reason)} {first.help && <span class="help">What would help: </span>}<WaitingHelp waiting={first} />
      {others.length > 0 && (
        <span class="then">
          Then: {others.map((one, index) => <span key={one.namespace + one.name}>{index > 0 && ", "}<WaitingName waiting={one} /> ({gpus(one.gpus)})</span>)}
          {served.count > served.first.length && <> and <a href={links.queue}>{number(served.count - served.first.length)} more</a></>}
        </span>
      )}
    </div>
  );
}

/** Free GPUs by model, which are what people look for first; each shows the nodes of its model. */
export function Models({ summary, text, onFind }: { summary: Summary; text: string; onFind: (text: string) => void }): JSX.Element | null {
  const models = useMemo(() => byModel(list(summary.models)), [summary.models]);
  if (models.length === 0) return null;
  return (
    <ul class="models" aria-label="Free GPUs by model">
      {models.map(({ model, sum }) => (
        <li key={model}>
          <button type="button" class="chip" aria-pressed={text === model} onClick={() => onFind(text === model ? "" : model)}>
            {model || "Unknown model"} {wholeGPUs(sum) > 0 && <><b>{number(sum.free)}</b> of {number(wholeGPUs(sum))} free</>}
            {sum.divided ? `${wholeGPUs(sum) > 0 ? ", " : ""}${slicesFree(sum)}` : ""}
          </button>
        </li>
      ))}
    </ul>
  );
}

const mostNamed = 4;

/** The first of those that are served, and how many there are. */
function firstOf(all: Iterable<Waiting>, most: number): { first: Waiting[]; count: number } {
  const served = [...all].filter((waiting) => !waiting.refused).sort((a, b) => a.turn - b.turn);
  return { first: served.slice(0, most), count: served.length };
}
