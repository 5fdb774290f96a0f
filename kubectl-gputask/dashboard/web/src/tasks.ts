// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Phase, Task } from "./api";
import { compareNames, list } from "./format";

export type SortKey = "state" | "name" | "asks" | "created";

/** Which tasks are shown, and in which order. */
export interface TaskFilter {
  text: string;
  namespace: string;
  /** A phase, or the kind of a verdict: "NeverFits". */
  state: string;
  sort: SortKey;
  descending: boolean;
  /** Also what has finished long ago. */
  all: boolean;
}

/** What waits or runs comes before what has failed, which somebody should look at, and that before what is over or paused. */
const ranks: Record<Phase, number> = { Waiting: 0, Pending: 0, "": 0, Running: 1, Failed: 2, Suspended: 3, Succeeded: 4 };
const recently = 3_600_000;

const comparisons: Record<SortKey, (a: Task, b: Task) => number> = {
  state: (a, b) => ranks[a.phase] - ranks[b.phase],
  name: (a, b) => compareNames(a.name, b.name) || compareNames(a.namespace, b.namespace),
  asks: (a, b) => amountAsked(a.asks) - amountAsked(b.asks),
  created: (a, b) => compareTexts(a.created, b.created),
};

/** Reads a filter from an address, and never fails. */
export function filterOf(query: URLSearchParams): TaskFilter {
  const sort = query.get("sort") ?? "";
  const key = sort.replace(/^-/, "");
  return {
    text: query.get("find") ?? "", namespace: query.get("namespace") ?? "", state: query.get("state") ?? "",
    sort: Object.hasOwn(comparisons, key) ? key as SortKey : "state", descending: Object.hasOwn(comparisons, key) && sort.startsWith("-"),
    all: query.get("finished") === "all",
  };
}

/** What an address says that sorts by a column: at first from its interesting end, then the other way round. */
export function nextSort(filter: TaskFilter, key: SortKey): string {
  const descending = filter.sort === key ? !filter.descending : key === "asks" || key === "created";
  return sortText(key, descending);
}

export function sortText(key: SortKey, descending: boolean): string {
  return key === "state" && !descending ? "" : `${descending ? "-" : ""}${key}`;
}

/** The tasks that are shown, and how many are left out because they finished long ago. verdictOf returns the kind of a waiting task's verdict. */
export function selectTasks(all: Iterable<Task>, filter: TaskFilter, verdictOf: (task: Task) => string, now: number): { found: Task[]; hidden: number } {
  const words = filter.text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const matching = [...all].filter((task) => (filter.namespace === "" || task.namespace === filter.namespace)
    && (filter.state === "" || task.phase === filter.state || verdictOf(task) === filter.state) && words.every((word) => searchText(task).includes(word)));
  // Who asks for a name or a state means all of it.
  const recent = filter.all || words.length > 0 || filter.state !== "" ? matching : matching.filter((task) => !isLongOver(task, now));
  const compare = comparisons[filter.sort];
  const sign = filter.descending ? -1 : 1;
  const found = [...recent].sort((a, b) => sign * compare(a, b) || newestFirst(a, b) || compareNames(a.name, b.name));
  return { found, hidden: matching.length - recent.length };
}

function isLongOver(task: Task, now: number): boolean {
  return task.finished !== undefined && now - Date.parse(task.finished) > recently;
}

function newestFirst(a: Task, b: Task): number {
  return compareTexts(b.finished ?? b.created, a.finished ?? a.created);
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** How much a task asks for: "2 × 4 GPUs + 1 GPU of t4 + 1 Pod without" is 9. MIG slices count as GPUs do. */
function amountAsked(asks: string): number {
  const parts = asks.split(" + ").filter((part) => !part.includes("without"));
  return parts.reduce((sum, part) => sum + part.split(" × ").reduce((product, factor) => product * (Number.parseFloat(factor) || 0), 1), 0);
}

const searchTexts = new WeakMap<Task, string>();

function searchText(task: Task): string {
  let text = searchTexts.get(task);
  if (text === undefined) {
    const labels = Object.entries(task.labels ?? {}).map(([key, value]) => `${key}=${value}`);
    text = [`${task.namespace}/${task.name}`, task.gpu ?? "", task.queue ?? "", ...labels, ...list(task.nodes)].join("\n").toLowerCase();
    searchTexts.set(task, text);
  }
  return text;
}
