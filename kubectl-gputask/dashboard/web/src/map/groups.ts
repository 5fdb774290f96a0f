// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Node } from "../api";
import { compareNames, list } from "../format";
import { freeGPUs } from "./cells";
import { hasFreeSlices } from "./slices";
import type { Group } from "./layout";

/** "pool", "model" or "none", or "level:" and the name of a level of the topology. */
export type Grouping = string;

export interface Choice {
  value: Grouping;
  label: string;
}

export interface Filter {
  /** All of its words must be found. */
  text: string;
  onlyFree: boolean;
}

export function groupings(levels: readonly string[]): Choice[] {
  return [
    ...levels.map((level) => ({ value: `level:${level}`, label: capitalised(level) })),
    { value: "pool", label: "Pool" },
    { value: "model", label: "GPU model" },
    { value: "none", label: "Not grouped" },
  ];
}

/** The narrowest level is what people look for first, if there is a topology. */
export function defaultGrouping(levels: readonly string[]): Grouping {
  const narrowest = levels[levels.length - 1];
  return narrowest === undefined ? "model" : `level:${narrowest}`;
}

/** The nodes that pass a filter, in groups. The names must be sorted. */
export function groupNodes(
  names: readonly string[], nodes: ReadonlyMap<string, Node>, levels: readonly string[], grouping: Grouping, filter: Filter,
): Group<Node>[] {
  // The whole name of a node is that node, not also those whose names begin with it.
  if (nodes.has(filter.text.trim())) names = [filter.text.trim()];
  const words = filter.text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const titleOf = titles(grouping, levels);
  const groups = new Map<string, { node: Node; gpus: number }[]>();
  for (const name of names) {
    const node = nodes.get(name);
    if (!node || !passes(node, words, filter.onlyFree)) continue;
    const title = titleOf(node);
    const group = groups.get(title);
    const item = { node, gpus: list(node.gpus).length };
    if (group) group.push(item);
    else groups.set(title, [item]);
  }
  const sorted = [...groups].sort(([a], [b]) => compareNames(a, b));
  return sorted.map(([title, items]) => ({ title, note: noteOf(items), nodes: items }));
}

export function sortedNames(nodes: ReadonlyMap<string, Node>): string[] {
  return [...nodes.keys()].sort(compareNames);
}

function titles(grouping: Grouping, levels: readonly string[]): (node: Node) => string {
  if (grouping === "none") return () => "";
  if (grouping === "pool") return (node) => (node.pool ? `Pool ${node.pool}` : "No pool");
  if (grouping === "model") return (node) => node.model || "Unknown model";
  const level = grouping.replace(/^level:/, "");
  const index = levels.indexOf(level);
  return (node) => list(node.domains)[index] || `No ${level}`;
}

function noteOf(items: readonly { node: Node; gpus: number }[]): string {
  let total = 0;
  let free = 0;
  for (const { node, gpus } of items) {
    total += gpus;
    free += freeGPUs(node);
  }
  return `${free} of ${total} free`;
}

function passes(node: Node, words: readonly string[], onlyFree: boolean): boolean {
  if (onlyFree && freeGPUs(node) === 0 && !hasFreeSlices(node)) return false;
  if (words.length === 0) return true;
  const text = searchText(node);
  return words.every((word) => text.includes(word));
}

/** What a node is found by, kept as long as its row does not change. */
const searchTexts = new WeakMap<Node, string>();

function searchText(node: Node): string {
  let text = searchTexts.get(node);
  if (text === undefined) {
    const holders = list(node.holders).map((holder) => `${holder.namespace}/${holder.task ?? ""} ${holder.namespace}/${holder.pod}`);
    text = [node.name, node.model ?? "", node.pool ?? "", ...list(node.domains), ...holders].join("\n").toLowerCase();
    searchTexts.set(node, text);
  }
  return text;
}

function capitalised(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
