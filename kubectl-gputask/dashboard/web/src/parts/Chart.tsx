// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { areaPath, linePath, nearest, parts, timeTicks, valueTicks, xOf, yOf, type Frame, type Point } from "../curves";
import { absolute, number } from "../format";

/** What is known of one time. */
export interface Moment {
  time: string;
}

export interface Series<M extends Moment> {
  label: string;
  /** A class of the style sheet, which has its colour and its dashes. */
  class: string;
  fill?: boolean;
  value: (sample: M) => number;
}

const height = 200;
const left = 48;
const right = 12;
const top = 8;
const bottom = 26;

export interface ChartProps<M extends Moment> {
  samples: readonly M[];
  series: readonly Series<M>[];
  label: string;
  /** The time that the pointer is at, in this chart or in another one. */
  pointer: number | undefined;
  onPointer: (time: number | undefined) => void;
}

/** Curves over time. For those who don't see them, the label and a table of the view tell the same. */
export function Chart<M extends Moment>({ samples, series, label, pointer, onPointer }: ChartProps<M>): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const times = useMemo(() => samples.map((sample) => Date.parse(sample.time)), [samples]);
  const frame = useMemo(() => frameOf(samples, series, times, width - left - right), [samples, series, times, width]);
  const index = pointer === undefined ? samples.length - 1 : nearest(times, pointer);
  const onMove = (event: PointerEvent) => {
    const x = event.clientX - box.current!.getBoundingClientRect().left - left;
    onPointer(x >= 0 && x <= frame.width ? frame.from + (x / frame.width) * (frame.to - frame.from) : undefined);
  };
  return (
    <figure class="chart">
      <Readout sample={samples[index]} series={series} isNow={pointer === undefined} />
      <div ref={box} onPointerMove={onMove} onPointerLeave={() => onPointer(undefined)}>
        {width > 0 && (
          <svg width={width} height={height + top + bottom} role="img" aria-label={label}>
            <g transform={`translate(${left} ${top})`}>
              <Grid frame={frame} />
              {series.map((one) => <Curve key={one.label} series={one} samples={samples} times={times} frame={frame} />)}
              {pointer !== undefined && <line class="chart-pointer" x1={xOf(frame, times[index]!)} x2={xOf(frame, times[index]!)} y1="0" y2={height} />}
            </g>
          </svg>
        )}
      </div>
    </figure>
  );
}

/** The legend, with the values where the pointer is, or the last ones. */
function Readout<M extends Moment>({ sample, series, isNow }: { sample: M | undefined; series: readonly Series<M>[]; isNow: boolean }): JSX.Element {
  return (
    <figcaption class="chart-legend">
      {series.map((one) => (
        <span key={one.label}>
          <svg width="28" height="10" aria-hidden="true" focusable="false"><path class={`curve ${one.class}`} d="M1 5H27" /></svg>
          {one.label} <b>{sample ? number(one.value(sample)) : "–"}</b>
        </span>
      ))}
      <span class="muted">{sample && !isNow ? absolute(new Date(sample.time)) : "now"}</span>
    </figcaption>
  );
}

function Grid({ frame }: { frame: Frame }): JSX.Element {
  return (
    <g class="chart-grid">
      {valueTicks(frame.most, 5).map((value) => (
        <g key={value}>
          <line x1="0" x2={frame.width} y1={yOf(frame, value)} y2={yOf(frame, value)} />
          <text x="-8" y={yOf(frame, value) + 4} text-anchor="end">{number(value)}</text>
        </g>
      ))}
      {timeTicks(frame.from, frame.to, Math.max(2, Math.floor(frame.width / 90))).map(({ at, label }) => (
        <text key={at} x={xOf(frame, at)} y={height + 18} text-anchor={xOf(frame, at) < 20 ? "start" : xOf(frame, at) > frame.width - 20 ? "end" : "middle"}>{label}</text>
      ))}
    </g>
  );
}

function Curve<M extends Moment>({ series, samples, times, frame }: { series: Series<M>; samples: readonly M[]; times: readonly number[]; frame: Frame }): JSX.Element {
  const lines = useMemo(() => {
    const points = samples.map((sample, index): Point => ({ time: times[index]!, value: series.value(sample) }));
    return parts(points);
  }, [samples, times, series]);
  return (
    <g>
      {series.fill && <path class={`curve-area ${series.class}`} d={lines.map((line) => areaPath(frame, line)).join("")} />}
      <path class={`curve ${series.class}`} d={lines.map((line) => linePath(frame, line)).join("")} />
    </g>
  );
}

function frameOf<M extends Moment>(samples: readonly M[], series: readonly Series<M>[], times: readonly number[], width: number): Frame {
  let most = 1;
  for (const sample of samples) {
    for (const one of series) most = Math.max(most, one.value(sample));
  }
  const ticks = valueTicks(most, 5);
  const from = times[0] ?? 0;
  return { from, to: Math.max(from + 1, times[times.length - 1] ?? 0), most: ticks[ticks.length - 1]!, width: Math.max(1, width), height };
}

function useWidth(element: { current: HTMLDivElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setWidth(element.current?.clientWidth ?? 0));
    setWidth(element.current!.clientWidth);
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return width;
}
