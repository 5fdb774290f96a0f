// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Cell, Node } from "../api";
import type { Theme } from "../theme";
import { holderName, holdersOf } from "./cells";

export type ColourBy = "task" | "priority" | "utilisation" | "health";

export const colourings: { value: ColourBy; label: string }[] = [
  { value: "task", label: "Task" },
  { value: "priority", label: "Priority" },
  { value: "utilisation", label: "Utilisation" },
  { value: "health", label: "Health" },
];

export interface Palette {
  text: string;
  muted: string;
  outline: string;
  /** What is around each square, so that light colours can be told from the page. */
  edge: string;
  page: string;
  free: string;
  closed: string;
  reserved: string;
  unhealthy: string;
  unhealthyFill: string;
  attention: string;
  accent: string;
  /** Busy where colours tell nothing else, and where what they tell is not known. */
  plain: string;
  unknown: string;
  tasks: readonly string[];
  /** From little to much. */
  scale: readonly string[];
  highlight: string;
}

// The colours of tasks are those of Okabe and Ito, and of Tol, that people with any colour vision can tell apart; red is left to what is broken.
const palettes: Record<Theme, Palette> = {
  light: {
    text: "#1a1f26", muted: "#55606e", outline: "#4f9069", edge: "rgba(20, 28, 38, 0.45)", page: "#ffffff", free: "#f0f9f3",
    closed: "#9aa4b1", reserved: "#6b4fa0", unhealthy: "#b3261e", unhealthyFill: "#fde7e4", attention: "#c77700", accent: "#0b5cad",
    plain: "#5b87b8", unknown: "#b9c1cb",
    tasks: ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#882255", "#999933", "#332288", "#44aa99", "#f0e442"],
    scale: ["#bdd7ec", "#93c0e0", "#5fa3d1", "#2f7fbd", "#0f57a0", "#062c5e"], highlight: "#b3005e",
  },
  dark: {
    text: "#e6eaf0", muted: "#a3afbd", outline: "#5fae80", edge: "rgba(235, 242, 250, 0.35)", page: "#1a2027", free: "#17281f",
    closed: "#67727f", reserved: "#b79cf0", unhealthy: "#ff8a80", unhealthyFill: "#4a1f1d", attention: "#f0b35a", accent: "#6cb2ff",
    plain: "#5b87b8", unknown: "#4a5562",
    tasks: ["#3b9bdc", "#e69f00", "#1fb58b", "#d78fb7", "#8accf2", "#c0578c", "#b3b34d", "#8d7fe0", "#5cc4b3", "#f0e442"],
    scale: ["#2a4666", "#315f8f", "#3d7fbb", "#5da0d9", "#93c7f0", "#d6ecff"], highlight: "#ff7ac2",
  },
};

export function paletteOf(theme: Theme): Palette {
  return palettes[theme];
}

export interface Colouring {
  by: ColourBy;
  palette: Palette;
  /** The priorities that there are, the lowest first. */
  priorities: readonly number[];
}

/** The colour of what is allocated of a GPU. */
export function colourOf(colouring: Colouring, node: Node, cell: Cell, load: number | undefined): string {
  const { palette } = colouring;
  switch (colouring.by) {
    case "task":
      return taskColour(palette, node, cell);
    case "priority":
      return priorityColour(colouring, node, cell);
    case "utilisation":
      return load === undefined || load < 0 ? palette.unknown : stepColour(palette.scale, load / 100);
    case "health":
      return node.notice ? palette.attention : palette.plain;
  }
}

export function stepColour(scale: readonly string[], part: number): string {
  const step = Math.min(scale.length - 1, Math.max(0, Math.floor(part * scale.length)));
  return scale[step] ?? "";
}

export function priorityStep(palette: Palette, priorities: readonly number[], priority: number): string {
  const rank = priorities.indexOf(priority);
  if (rank < 0) return palette.unknown;
  return stepColour(palette.scale, priorities.length === 1 ? 0.5 : 0.15 + (0.8 * rank) / (priorities.length - 1));
}

/**
 * Which of some colours each task has: as a rule always the same, for each viewer; but as long as there are enough colours, no two tasks
 * have the same. What a task has got it keeps until it is gone.
 */
export class TaskColours {
  private readonly indices = new Map<string, number>();

  constructor(private readonly count: number) {}

  /** Takes note of which tasks there are. */
  update(nodes: Iterable<Node>): this {
    const names = new Set<string>();
    for (const node of nodes) {
      for (const holder of node.holders ?? []) {
        if (holder.task !== undefined) names.add(holderName(holder));
      }
    }
    for (const name of this.indices.keys()) {
      if (!names.has(name)) this.indices.delete(name);
    }
    const used = new Set(this.indices.values());
    for (const name of [...names].filter((one) => !this.indices.has(one)).sort()) {
      let index = fnv1a(name) % this.count;
      while (used.has(index) && used.size < this.count) index = (index + 1) % this.count;
      used.add(index);
      this.indices.set(name, index);
    }
    return this;
  }

  get size(): number {
    return this.indices.size;
  }

  /** The tasks with their indices, by name. */
  all(): [string, number][] {
    return [...this.indices].sort(([a], [b]) => a.localeCompare(b));
  }

  of(name: string): number {
    return this.indices.get(name) ?? fnv1a(name) % this.count;
  }
}

/** Those of this page: all maps on it have the same. */
export const taskColours = new TaskColours(palettes.light.tasks.length);

export function prioritiesOf(nodes: Iterable<Node>): number[] {
  const found = new Set<number>();
  for (const node of nodes) {
    for (const holder of node.holders ?? []) found.add(holder.priority);
  }
  return [...found].sort((a, b) => a - b);
}

function taskColour(palette: Palette, node: Node, cell: Cell): string {
  const [holder] = holdersOf(node, cell);
  if (!holder) return palette.plain;
  return holder.task === undefined ? palette.unknown : palette.tasks[taskColours.of(holderName(holder))] ?? palette.plain;
}

function priorityColour({ palette, priorities }: Colouring, node: Node, cell: Cell): string {
  const holders = holdersOf(node, cell);
  if (holders.length === 0) return palette.unknown;
  return priorityStep(palette, priorities, Math.max(...holders.map((holder) => holder.priority)));
}

function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    hash ^= text.charCodeAt(i);
    hash = Math.imul(hash, 0x01000193);
  }
  // The low bits of this hash are poor: names that differ in one digit would get neighbouring colours.
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  return (hash ^ (hash >>> 12)) >>> 0;
}
