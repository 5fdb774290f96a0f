// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Sample } from "./api";
import { gpus, number } from "./format";

/** The samples of the last hours in the order of time; of several for one time, the last one counts. */
export function mergeSamples(fetched: readonly Sample[], live: Iterable<Sample>, hours: number, now: number): Sample[] {
  const byTime = new Map<number, Sample>();
  for (const sample of fetched) byTime.set(Date.parse(sample.time), sample);
  const end = fetched.length > 0 ? Date.parse(fetched[fetched.length - 1]!.time) : -Infinity;
  for (const sample of live) {
    const time = Date.parse(sample.time);
    // What was fetched may come from elsewhere, so that the two must not be mixed.
    if (time > end) byTime.set(time, sample);
  }
  const begin = now - hours * 3_600_000;
  return [...byTime].filter(([time]) => time >= begin).sort(([a], [b]) => a - b).map(([, sample]) => sample);
}

/** What the curves show, in words. */
export function summaryOf(samples: readonly Sample[]): string {
  const last = samples[samples.length - 1];
  if (!last) return "There are no samples.";
  const allocated = samples.map((sample) => sample.allocated);
  const waiting = Math.max(...samples.map((sample) => sample.waiting));
  const mean = meanAllocated(samples);
  const least = number(Math.min(...allocated));
  const most = number(Math.max(...allocated));
  const range = least === most ? "" : `, between ${least} and ${most}`;
  return `${number(last.allocated)} of ${gpus(last.total)} ${last.allocated === 1 ? "is" : "are"} allocated now; the average over this span is ${number(mean)}${range}. At most ${gpus(waiting)} ${waiting === 1 ? "was" : "were"} requested at once; ` +
    `${number(last.stranded)} ${last.stranded === 1 ? "is" : "are"} stranded and ${number(last.unhealthy)} unhealthy now.`;
}

/** The mean over time of the allocated GPUs, with straight lines between the samples: these are rarer while nobody sees the page. */
function meanAllocated(samples: readonly Sample[]): number {
  let area = 0;
  let duration = 0;
  for (let i = 1; i < samples.length; i++) {
    const [before, after] = [samples[i - 1]!, samples[i]!];
    const time = Date.parse(after.time) - Date.parse(before.time);
    area += (time * (before.allocated + after.allocated)) / 2;
    duration += time;
  }
  return duration > 0 ? area / duration : samples[samples.length - 1]!.allocated;
}
