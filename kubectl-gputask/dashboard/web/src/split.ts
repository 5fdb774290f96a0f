// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Curves } from "./api";
import { number } from "./format";
import type { Moment, Series } from "./parts/Chart";

/** By what the history is split; by nothing for the whole cluster. */
export type Dimension = "cluster" | "queue" | "model" | "namespace";

/** What the names of a dimension are, as the heading of a column. */
export const headings: Record<Dimension, string> = { cluster: "", queue: "Queue", model: "GPU model", namespace: "Namespace" };

/** What a name of a dimension is called: some have a meaning. */
export function partName(dimension: Dimension, name: string): string {
  if (dimension === "cluster") return "Whole cluster";
  if (name === "(others)") return "Others";
  if (name === "*" && dimension === "model") return "Any model";
  if (name === "") return dimension === "queue" ? "No queue" : dimension === "model" ? "Unknown model" : "–";
  return name;
}

/** One time, with the GPUs of each curve. */
export interface SplitMoment extends Moment {
  gpus: readonly number[];
}

export function momentsOf(curves: Curves): SplitMoment[] {
  return (curves.times ?? []).map((time, index) => ({ time, gpus: (curves.series ?? []).map((one) => one.gpus[index] ?? 0) }));
}

/** The curves with their names and classes: as many as the style sheet can tell apart. */
export function seriesOf(dimension: Dimension, curves: Curves): Series<SplitMoment>[] {
  return (curves.series ?? []).map(({ name }, index) => ({
    label: partName(dimension, name), class: name === "(others)" ? "part-others" : `part-${index + 1}`, value: (moment) => moment.gpus[index] ?? 0,
  }));
}

/** What the curves show, in words. */
export function splitSummary(dimension: Dimension, curves: Curves): string {
  const now = seriesOf(dimension, curves).map((one, index) => `${one.label} ${number(curves.series[index]!.gpus.at(-1) ?? 0)}`);
  return `GPUs allocated over time. Now: ${now.join(", ")}.`;
}
