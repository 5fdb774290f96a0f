// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Member, Span } from "../api";
import { clockTime, clockTimes, duration, gpuIndices, list, number } from "../format";
import { slicesText } from "../map/slices";
import { useTick } from "../page";
import { PhaseBadge } from "./Badge";
import { Pages } from "./Pages";
import { Table } from "./Table";
import { Clock, Lasted } from "./Time";

const perPage = 40;

const states: Record<Span["state"], { letter: string; text: string }> = {
  Waiting: { letter: "W", text: "Waiting" },
  Starting: { letter: "S", text: "Starting" },
  Running: { letter: "R", text: "Running" },
  Succeeded: { letter: "✓", text: "Succeeded" },
  Failed: { letter: "✗", text: "Failed" },
  Preempted: { letter: "P", text: "Preempted" },
  Moved: { letter: "M", text: "Moved" },
  Evicted: { letter: "E", text: "Evicted" },
  Gone: { letter: "G", text: "Gone" },
};

interface Range {
  from: number;
  to: number;
}

/** What the Pods of a task have done when, as bars; the table below tells the same. */
export function Timeline({ members }: { members: readonly Member[] }): JSX.Element {
  const [page, setPage] = useState(0);
  useTick(5);
  const now = new Date();
  const range = rangeOf(members, now);
  const shown = members.slice(page * perPage, (page + 1) * perPage);
  return (
    <>
      <div class="timeline" role="img" aria-label="Timeline of the Pods. The table below tells the same.">
        {shown.map((member) => (
          <div class="timeline-row" key={member.name}>
            <span class="timeline-name" title={member.name}>{member.name}</span>
            <div class="timeline-track">{list(member.spans).map((span) => <Bar key={span.from + span.state} span={span} range={range} now={now} />)}</div>
          </div>
        ))}
        <Axis range={range} now={now} />
      </div>
      <Legend members={shown} />
      <Pages page={page} perPage={perPage} count={members.length} what="Pods" onPage={setPage} />
      <MemberTable members={shown} />
      <SpanTable members={shown} />
    </>
  );
}

function Bar({ span, range, now }: { span: Span; range: Range; now: Date }): JSX.Element {
  const from = Date.parse(span.from);
  const to = span.to ? Date.parse(span.to) : isEnd(span) ? from : now.getTime();
  const length = range.to - range.from;
  const style = { left: `${((from - range.from) / length) * 100}%`, width: `${((to - from) / length) * 100}%` };
  const state = states[span.state];
  return (
    <i class={`span ${span.state.toLowerCase()} ${isEnd(span) ? "end" : ""} ${span.begin ? "begins" : ""}`} style={style} title={spanText(span, from, to, now)}>
      {state?.letter}
    </i>
  );
}

/** What the letters mean that are seen. */
function Legend({ members }: { members: readonly Member[] }): JSX.Element {
  const seen = new Set<string>(members.flatMap((member) => list(member.spans).map((span) => span.state)));
  return (
    <ul class="timeline-legend" aria-hidden="true">
      {Object.entries(states).map(([state, { letter, text }]) => seen.has(state) && <li key={state}><i class={`span ${state.toLowerCase()}`}>{letter}</i>{text}</li>)}
    </ul>
  );
}

/** How a Pod ended lasts no time. */
function isEnd(span: Span): boolean {
  return !["Waiting", "Starting", "Running"].includes(span.state);
}

function spanText(span: Span, from: number, to: number, now: Date): string {
  const parts = [
    span.begin ? `after it was ${span.begin}` : "", states[span.state]?.text ?? span.state,
    isEnd(span) ? `at ${clockTime(new Date(from), now)}` : `for ${duration((to - from) / 1000)} from ${clockTime(new Date(from), now)}`,
    span.node ? `on ${span.node}` : "", span.note ?? "",
  ];
  return parts.filter((part) => part !== "").join(", ");
}

function Axis({ range, now }: { range: Range; now: Date }): JSX.Element {
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  const texts = clockTimes(ticks.map((part) => new Date(range.from + part * (range.to - range.from))), now);
  return (
    <div class="timeline-row axis">
      <span class="timeline-name" />
      <div class="timeline-axis">
        {ticks.map((part, index) => <span key={part} style={{ left: `${part * 100}%` }}>{part === 1 && range.to >= now.getTime() - 1000 ? "now" : texts[index]}</span>)}
      </div>
    </div>
  );
}

function MemberTable({ members }: { members: readonly Member[] }): JSX.Element {
  return (
    <Table label="Pods">
      <caption class="visually-hidden">The Pods of the task now</caption>
      <thead><tr><th scope="col">Pod</th><th scope="col">Phase</th><th scope="col">Node</th><th scope="col">GPUs</th><th scope="col">Reason</th></tr></thead>
      <tbody>
        {members.map((member) => (
          <tr key={member.name}>
            <th scope="row">{member.name}</th><td class="state"><PhaseBadge phase={member.phase} /></td><td>{member.node || "–"}</td>
            <td>{list(member.gpus).length > 0 ? gpuIndices(list(member.gpus)) : slicesText(member.slices) || "–"}</td><td class="message">{member.reason || "–"}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function SpanTable({ members }: { members: readonly Member[] }): JSX.Element {
  const [open, setOpen] = useState(false);
  const rows = members.flatMap((member) => list(member.spans).map((span) => ({ member, span })));
  return (
    <details class="as-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Timeline as a table</summary>
      {open && (
        <Table label="Timeline as a table">
          <caption class="visually-hidden">What the Pods have done, {number(rows.length)} entries</caption>
          <thead><tr><th scope="col">Pod</th><th scope="col">State</th><th scope="col">From</th><th scope="col">Lasted</th><th scope="col">Node</th><th scope="col">Note</th></tr></thead>
          <tbody>
            {rows.map(({ member, span }, index) => (
              <tr key={index}>
                <th scope="row">{member.name}</th><td>{states[span.state]?.text ?? span.state}</td><td class="nowrap"><Clock at={span.from} /></td>
                <td class="nowrap">{isEnd(span) ? "–" : <Lasted from={span.from} to={span.to} />}</td><td>{span.node || "–"}</td>
                <td class="message">{[span.begin ? `after it was ${span.begin}` : "", span.note ?? ""].filter((part) => part !== "").join("; ") || "–"}</td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
    </details>
  );
}

function rangeOf(members: readonly Member[], now: Date): Range {
  let from = Infinity;
  let to = -Infinity;
  for (const span of members.flatMap((member) => list(member.spans))) {
    const begin = Date.parse(span.from);
    from = Math.min(from, begin);
    to = Math.max(to, span.to ? Date.parse(span.to) : isEnd(span) ? begin : now.getTime());
  }
  if (from === Infinity) return { from: now.getTime() - 60_000, to: now.getTime() };
  return { from, to: Math.max(to, from + 10_000) };
}
