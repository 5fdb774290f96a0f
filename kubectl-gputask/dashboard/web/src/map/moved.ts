// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Cell, Holder, Move, Node, Place } from "../api";
import { list } from "../format";

export type When = "before" | "after";

/**
 * Nodes as they were before moves or will be after them, made from the nodes as they are: some of the moves may have been done already.
 * GPUs that are not in the moves stay as they are. placed is the task whose Pods get the places.
 */
export function nodesAt(when: When, nodes: ReadonlyMap<string, Node>, moves: readonly Move[], places: readonly Place[], placed = ""): Map<string, Node> {
  const drawn = new Map<string, Node>();
  const nodeOf = (name: string): Node | undefined => {
    const known = drawn.get(name) ?? nodes.get(name);
    if (!known) return undefined;
    // A copy: the rows of the store stay as they are.
    const copy = { ...known, gpus: [...list(known.gpus)], holders: [...list(known.holders)] };
    drawn.set(name, copy);
    return copy;
  };
  for (const move of moves) clear(nodeOf((when === "before" ? move.to : move.from).node), when === "before" ? move.to : move.from, move.task, move.pod);
  for (const move of moves) fill(nodeOf((when === "before" ? move.from : move.to).node), when === "before" ? move.from : move.to, move.task, move.pod);
  for (const place of places) {
    if (when === "after") fill(nodeOf(place.node), place, placed, place.pod);
    else nodeOf(place.node);
  }
  return drawn;
}

/** Takes a Pod of a task away from a place. What others hold there stays. */
function clear(node: Node | undefined, place: Place, task: string, pod: string): void {
  if (!node) return;
  for (const gpu of list(place.gpus)) {
    const cell = node.gpus[gpu];
    if (!cell || cell.use === "Unhealthy" || cell.use === "Closed") continue;
    const staying = list(cell.holders).filter((index) => !isOf(node.holders?.[index], task, pod));
    if (cell.use !== "Reserved" && staying.length === list(cell.holders).length) continue;
    node.gpus[gpu] = freed(cell, node, staying);
  }
}

function freed(cell: Cell, node: Node, staying: number[]): Cell {
  if (staying.length === 0) return { use: "Free" };
  const percent = staying.reduce((sum, index) => sum + (node.holders?.[index]?.percent ?? 0), 0);
  return { use: percent >= 100 ? cell.use : "Shared", percent, holders: staying };
}

function fill(node: Node | undefined, place: Place, task: string, pod: string): void {
  if (!node) return;
  const holders = node.holders ?? [];
  node.holders = holders;
  const holder = holders.push(holderOf(task, pod)) - 1;
  for (const gpu of list(place.gpus)) {
    if (node.gpus[gpu]) node.gpus[gpu] = { use: "Busy", holders: [holder] };
  }
}

function holderOf(task: string, pod: string): Holder {
  const [namespace, name] = task === "" ? pod.split("/") : task.split("/");
  return { namespace: namespace ?? "", pod, task: name ?? pod, priority: 0, percent: 100, phase: "Running", since: new Date().toISOString() };
}

/** A Pod has another name after its move, so that its task counts too. */
function isOf(holder: Holder | undefined, task: string, pod: string): boolean {
  if (!holder) return false;
  return `${holder.namespace}/${holder.task ?? ""}` === task || holder.pod === pod || `${holder.namespace}/${holder.pod}` === pod;
}
