// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";

import type { QueueResource } from "../api";

const width = 240;
const height = 18;

/** Used and borrowed as a filled bar, guaranteed as its frame, the limit as a line. The numbers are beside it as text. */
export function QueueBar({ resource }: { resource: QueueResource }): JSX.Element {
  const used = amount(resource.used);
  const borrowed = Math.min(used, amount(resource.borrowed));
  const guaranteed = amount(resource.guaranteed);
  const limit = resource.limit === undefined ? undefined : amount(resource.limit);
  const most = Math.max(used, guaranteed, limit ?? 0, 1);
  const x = (value: number) => 1 + (value / most) * (width - 3);
  return (
    <svg class="queue-bar" viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-hidden="true" focusable="false">
      <rect class="bar-track" x="1" y="5" width={width - 3} height="8" rx="2" />
      <rect class="bar-used" x="1" y="5" width={x(used - borrowed) - 1} height="8" rx="2" />
      {borrowed > 0 && <Striped from={x(used - borrowed)} to={x(used)} />}
      {guaranteed > 0 && <rect class="bar-guaranteed" x="1" y="2" width={x(guaranteed) - 1} height={height - 4} rx="2" />}
      {limit !== undefined && <line class="bar-limit" x1={x(limit)} x2={x(limit)} y1="0" y2={height} />}
    </svg>
  );
}

/** Stripes tell what is borrowed from what is used without colours. */
function Striped({ from, to }: { from: number; to: number }): JSX.Element {
  const lines: JSX.Element[] = [];
  for (let at = from + 2; at < to; at += 4) lines.push(<line key={at} x1={at} x2={at} y1="5" y2="13" />);
  return <g class="bar-borrowed"><rect x={from} y="5" width={Math.max(1, to - from)} height="8" />{lines}</g>;
}

function amount(text: string): number {
  const value = Number(text);
  return Number.isFinite(value) ? value : 0;
}
