// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0
// The geometry of curves over time. Pure; all times are milliseconds, all lengths CSS pixels.

export interface Point {
  time: number;
  value: number;
}

export interface Frame {
  from: number;
  to: number;
  most: number;
  width: number;
  height: number;
}

export interface Tick {
  at: number;
  label: string;
}

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const timeSteps = [minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day];

export function xOf(frame: Frame, time: number): number {
  return ((time - frame.from) / Math.max(1, frame.to - frame.from)) * frame.width;
}

export function yOf(frame: Frame, value: number): number {
  return frame.height - (value / frame.most) * frame.height;
}

/** Round values from 0 on, the last of which is at or above a value. */
export function valueTicks(most: number, count: number): number[] {
  const rough = Math.max(most, 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, power * ([1, 2, 5, 10].find((factor) => power * factor >= rough) ?? 10));
  const ticks = [0];
  while (ticks[ticks.length - 1]! < most) ticks.push(ticks[ticks.length - 1]! + step);
  if (ticks.length === 1) ticks.push(step);
  return ticks;
}

/** Full minutes, hours or days in the viewer's zone; where a day begins, the day. */
export function timeTicks(from: number, to: number, count: number): Tick[] {
  const step = timeSteps.find((one) => (to - from) / one <= count) ?? Math.ceil((to - from) / count / day) * day;
  const midnight = new Date(from).setHours(0, 0, 0, 0);
  const ticks: Tick[] = [];
  for (let at = midnight + Math.ceil((from - midnight) / step) * step; at <= to; at += step) ticks.push({ at, label: labelOf(new Date(at)) });
  return ticks;
}

/** The points in parts between which nothing is known, for longer than points are apart as a rule. */
export function parts(points: readonly Point[]): Point[][] {
  const distances = points.slice(1).map((point, index) => point.time - points[index]!.time).sort((a, b) => a - b);
  const longest = 5 * (distances[distances.length >> 1] ?? 0);
  const result: Point[][] = [];
  points.forEach((point, index) => {
    const before = points[index - 1];
    const last = result[result.length - 1];
    if (last && before && point.time - before.time <= longest) last.push(point);
    else result.push([point]);
  });
  return result;
}

/** The line through points, as the path of an SVG. Of the points within a pixel only the least and the greatest are drawn. */
export function linePath(frame: Frame, points: readonly Point[]): string {
  return thinned(frame, points).map((point, index) => `${index === 0 ? "M" : "L"}${text(xOf(frame, point.time))} ${text(yOf(frame, point.value))}`).join("");
}

/** What is below the line. */
export function areaPath(frame: Frame, points: readonly Point[]): string {
  const first = points[0];
  const last = points[points.length - 1];
  if (!first || !last) return "";
  return `${linePath(frame, points)}L${text(xOf(frame, last.time))} ${frame.height}L${text(xOf(frame, first.time))} ${frame.height}Z`;
}

/** The index of the item whose time is nearest; times are sorted. */
export function nearest(times: readonly number[], time: number): number {
  let low = 0;
  let high = times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low > 0 && time - times[low - 1]! < times[low]! - time ? low - 1 : low;
}

function thinned(frame: Frame, points: readonly Point[]): Point[] {
  if (points.length <= 2 * frame.width) return [...points];
  const kept: Point[] = [];
  for (let start = 0; start < points.length;) {
    const column = Math.floor(xOf(frame, points[start]!.time));
    let end = start + 1;
    while (end < points.length && Math.floor(xOf(frame, points[end]!.time)) === column) end++;
    kept.push(...extremes(points, start, end));
    start = end;
  }
  return kept;
}

function extremes(points: readonly Point[], start: number, end: number): Point[] {
  let least = points[start]!;
  let greatest = least;
  for (let i = start + 1; i < end; i++) {
    const point = points[i]!;
    if (point.value < least.value) least = point;
    if (point.value > greatest.value) greatest = point;
  }
  if (least === greatest) return [least];
  return least.time < greatest.time ? [least, greatest] : [greatest, least];
}

function labelOf(time: Date): string {
  if (time.getHours() === 0 && time.getMinutes() === 0) return time.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

function text(value: number): string {
  return String(Math.round(value * 10) / 10);
}
