// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Cell, Holder, Node } from "../api";
import { clockTime, enumerate, list } from "../format";
import { asCell, dividedText } from "./slices";

/** The key of a GPU in sets and maps. */
export function cellKey(node: string, gpu: number): string {
  return `${node}/${gpu}`;
}

export function holdersOf(node: Node, cell: Cell): Holder[] {
  return list(cell.holders).flatMap((index) => node.holders?.[index] ?? []);
}

/** What holds a GPU: its task if it has one, else its Pod; with the namespace. */
export function holderName(holder: Holder): string {
  return `${holder.namespace}/${holder.task ?? holder.pod}`;
}

/** A GPU in a sentence: "h100-0, GPU 3, busy: default/train, since 12:03". */
export function cellText(node: Node, gpu: number, now: Date, load?: readonly number[]): string {
  const cell = list(node.gpus)[gpu];
  if (!cell) return node.name;
  const busy = load?.[gpu];
  const utilisation = busy !== undefined && busy >= 0 ? `, ${busy}% utilised` : "";
  return `${node.name}, GPU ${gpu}, ${stateText(node, cell, now)}${utilisation}`;
}

export function stateText(node: Node, cell: Cell, now: Date): string {
  const holders = holdersOf(node, cell).map((holder) => `${holderName(holder)}, since ${clockTime(new Date(holder.since), now)}`);
  const who = holders.length > 0 ? `: ${enumerate(holders)}` : "";
  switch (cell.use) {
    case "Free":
      return "free";
    case "Busy":
      return `busy${who}`;
    case "Shared":
      return `shared, ${cell.percent ?? 0}% allocated${who}`;
    case "Reserved":
      return cell.why ? `reserved: ${cell.why}` : "reserved";
    case "Unhealthy":
      return (cell.why ? `unhealthy: ${cell.why}` : "unhealthy") + who;
    case "Divided":
      return dividedText(cell, (slice) => stateText(node, asCell(slice), now));
    case "Closed":
      return node.notice ? `free, but its node is ${node.notice}` : "free, but its node is cordoned or not ready";
  }
}

/** Counted once for each version of a node. */
const free = new WeakMap<Node, number>();

export function freeGPUs(node: Node): number {
  let count = free.get(node);
  if (count === undefined) {
    count = list(node.gpus).filter((cell) => cell.use === "Free").length;
    free.set(node, count);
  }
  return count;
}
