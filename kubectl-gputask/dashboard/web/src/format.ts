// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

/** A number with at most two digits behind the point, and no more than it needs. */
export function number(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** "1 GPU", "3 GPUs"; also for amounts that are given as text. */
export function gpus(amount: number | string): string {
  return `${typeof amount === "number" ? number(amount) : amount} ${Number(amount) === 1 ? "GPU" : "GPUs"}`;
}

export function counted(count: number, one: string, many = one + "s"): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** Seconds of GPU time as GPU-minutes or GPU-hours. */
export function gpuTime(seconds: number): string {
  const inHours = seconds >= 3600;
  const value = seconds / (inHours ? 3600 : 60);
  const text = number(Math.round(value * 10) / 10);
  return `${text} ${inHours ? "GPU-hour" : "GPU-minute"}${text === "1" ? "" : "s"}`;
}

/** "42 s", "3 min", "1 h 20 min", "2 d 3 h". */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < minute) return `${whole} s`;
  if (whole < hour) return `${Math.floor(whole / minute)} min`;
  if (whole < day) return twoUnits(Math.floor(whole / hour), "h", Math.floor((whole % hour) / minute), "min");
  return twoUnits(Math.floor(whole / day), "d", Math.floor((whole % day) / hour), "h");
}

export function microseconds(value: number): string {
  if (value < 1_000) return `${number(value)} µs`;
  if (value < 1_000_000) return `${number(value / 1_000)} ms`;
  return `${number(value / 1_000_000)} s`;
}

/** "3 min ago", "in 2 h". */
export function relative(time: Date, now: Date): string {
  const seconds = (now.getTime() - time.getTime()) / 1000;
  if (Math.abs(seconds) < 5) return "just now";
  return seconds > 0 ? `${coarse(seconds)} ago` : `in ${coarse(-seconds)}`;
}

/** Date and time, in the viewer's zone. */
export function absolute(time: Date): string {
  return time.toLocaleString("en-GB", {
    weekday: "short", day: "numeric", month: "short", year: "numeric",
    hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
  });
}

/**
 * JSON whose sentences have their times, in RFC 3339 and UTC, as clockTime shows them. A text that is nothing but a time
 * stays as it is.
 */
export function withLocalTimes(json: string, now: Date): string {
  return json.replace(/(?<!["\d])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (text) => {
    const time = new Date(text);
    return Number.isNaN(time.getTime()) ? text : clockTime(time, now);
  });
}

/** "12:03" for today, "23 Nov 12:03" for other days. */
export function clockTime(time: Date, now: Date): string {
  const clock = time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (time.toDateString() === now.toDateString()) return clock;
  return `${time.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock}`;
}

/** Times as clockTime shows them, with seconds if two would look the same. */
export function clockTimes(times: readonly Date[], now: Date): string[] {
  const texts = times.map((time) => clockTime(time, now));
  if (new Set(texts).size === texts.length) return texts;
  return times.map((time, index) => `${texts[index]}:${String(time.getSeconds()).padStart(2, "0")}`);
}

/** A text's first sentence or half of one, and the rest, which is empty if the text is short. */
export function firstSentence(text: string): [first: string, rest: string] {
  const short = 90;
  if (text.length <= short) return [text, ""];
  const end = text.search(/[.;!?]\s/);
  return end < 0 ? [text, ""] : [text.slice(0, end), text.slice(end + 1).trim()];
}

/** How much of its share a queue has used lately, as the end of a sentence that begins with its name. */
export function shareUsed(factor: number | undefined): string {
  if (factor === undefined) return "its use is not known yet";
  if (factor < 0.01) return "has used nothing lately";
  if (factor > 0.95 && factor < 1.05) return "has used just its share";
  return `has used ${number(factor)} times its share`;
}

/** "GPU 3", "GPUs 0–3, 6". */
export function gpuIndices(indices: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const index of [...indices].sort((a, b) => a - b)) {
    const last = ranges[ranges.length - 1];
    if (last && index === last[1] + 1) last[1] = index;
    else ranges.push([index, index]);
  }
  const texts = ranges.map(([from, to]) => (from === to ? `${from}` : to === from + 1 ? `${from}, ${to}` : `${from}–${to}`));
  return `${indices.length === 1 ? "GPU" : "GPUs"} ${texts.join(", ")}`;
}

/** A list of items as the server may send it: Go writes an empty one as null. */
export function list<T>(items: readonly T[] | null | undefined): readonly T[] {
  return items ?? [];
}

/** "a", "a and b", "a, b and c". */
export function enumerate(items: readonly string[]): string {
  if (items.length < 2) return items.join("");
  return `${items.slice(0, -1).join(", ")} and ${items[items.length - 1]}`;
}

/** With a capital letter and a full stop. */
export function sentence(text: string): string {
  const begun = text.slice(0, 1).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : begun + ".";
}

/** Compares names as people count: node-2 comes before node-10. Ten times as fast as a collator. */
export function compareNames(a: string, b: string): number {
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    const digitsA = digitsAt(a, i);
    const digitsB = digitsAt(b, j);
    if (digitsA > 0 && digitsB > 0) {
      const difference = Number(a.slice(i, i + digitsA)) - Number(b.slice(j, j + digitsB));
      if (difference !== 0) return difference;
      i += digitsA;
      j += digitsB;
      continue;
    }
    const difference = a.charCodeAt(i) - b.charCodeAt(j);
    if (difference !== 0) return difference;
    i++;
    j++;
  }
  return a.length - i - (b.length - j) || (a < b ? -1 : a > b ? 1 : 0);
}

function digitsAt(text: string, start: number): number {
  let end = start;
  while (end < text.length && text.charCodeAt(end) >= 48 && text.charCodeAt(end) <= 57) end++;
  return end - start;
}

function coarse(seconds: number): string {
  if (seconds < minute) return `${Math.floor(seconds)} s`;
  if (seconds < hour) return `${Math.floor(seconds / minute)} min`;
  if (seconds < 2 * day) return `${Math.floor(seconds / hour)} h`;
  return `${Math.floor(seconds / day)} d`;
}

function twoUnits(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}
