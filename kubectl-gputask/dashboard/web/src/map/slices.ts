// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0
// GPUs that are divided into MIG slices. Each slice has a use and a holder of its own.

import type { Cell, Holder, Node, Slice } from "../api";
import { counted, enumerate, list } from "../format";

/** How many compute slices a GPU has. */
const computeSlices = 7;

export function sliceHolder(node: Node, slice: Slice): Holder | undefined {
  return slice.holder === undefined ? undefined : node.holders?.[slice.holder - 1];
}

/** What a slice is like as a GPU of its own, for what is painted and said of GPUs. */
export function asCell(slice: Slice): Cell {
  return { use: slice.use, ...(slice.holder === undefined ? {} : { holders: [slice.holder - 1] }) };
}

export interface Stripe {
  slice: Slice;
  top: number;
  height: number;
}

/** How the height of a square is divided: each slice gets as much of it as it has of the GPU's compute slices, from top to bottom. */
export function stripes(slices: readonly Slice[], height: number): Stripe[] {
  const sum = Math.max(computeSlices, slices.reduce((total, slice) => total + slice.compute, 0));
  let compute = 0;
  return slices.map((slice) => {
    const top = Math.round((height * compute) / sum);
    compute += slice.compute;
    return { slice, top, height: Math.round((height * compute) / sum) - top };
  });
}

/** "divided into 3 MIG slices: 1g.10gb, busy: default/train; 2 × 1g.10gb, free"; what is said of a slice is given. */
export function dividedText(cell: Cell, sliceText: (slice: Slice) => string): string {
  const slices = list(cell.slices);
  if (slices.length === 0) return "in MIG mode, without slices";
  const parts: { text: string; count: number }[] = [];
  for (const slice of slices) {
    const text = `${slice.profile}, ${sliceText(slice)}`;
    const last = parts[parts.length - 1];
    if (last?.text === text) last.count++;
    else parts.push({ text, count: 1 });
  }
  return `divided into ${counted(slices.length, "MIG slice")}: ${parts.map(({ text, count }) => (count > 1 ? `${count} × ${text}` : text)).join("; ")}`;
}

/** "1 of 3 × 1g.10gb, 0 of 1 × 2g.20gb" of the slices of a node that are free; empty if it has none. */
export function freeSlicesText(node: Node): string {
  const counts = new Map<string, { free: number; all: number }>();
  for (const slice of slicesOf(node)) {
    const count = counts.get(slice.profile) ?? { free: 0, all: 0 };
    counts.set(slice.profile, { free: count.free + (slice.use === "Free" ? 1 : 0), all: count.all + 1 });
  }
  return [...counts].sort(([a], [b]) => a.localeCompare(b)).map(([profile, { free, all }]) => `${free} of ${all} × ${profile}`).join(", ");
}

export function hasFreeSlices(node: Node): boolean {
  return slicesOf(node).some((slice) => slice.use === "Free");
}

function slicesOf(node: Node): Slice[] {
  return list(node.gpus).flatMap((cell) => list(cell.slices));
}

/** "2 MIG slices of 1g.10gb" of a Pod's slices by profile. */
export function slicesText(slices: Record<string, number> | undefined): string {
  return enumerate(Object.entries(slices ?? {}).map(([profile, count]) => `${counted(count, "MIG slice")} of ${profile}`));
}
