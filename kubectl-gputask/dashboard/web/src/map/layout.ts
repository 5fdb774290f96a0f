// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0
// Where each GPU is on the map. Pure: it knows only how many GPUs each node has. All lengths are CSS pixels.

export interface Metrics {
  /** The side of a GPU's square, and the space between two. */
  cell: number;
  gap: number;
  /** The height of the line with a node's name; 0 for none. */
  label: number;
  /** The least width of a node, so that its name can be read. */
  leastWidth: number;
  /** The space between nodes. */
  spaceX: number;
  spaceY: number;
  /** The height of a group's heading; that of a group without title is 0. */
  heading: number;
}

export interface Group<N extends { name: string }> {
  title: string;
  /** What is known of the group, behind its title. */
  note: string;
  nodes: readonly { node: N; gpus: number }[];
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A group's part of the map: a heading, and below it the nodes in rows. */
export interface Band {
  title: string;
  note: string;
  /** The index of its first node among those of all groups. */
  first: number;
  count: number;
  top: number;
  /** Where its rows begin. */
  rowsTop: number;
  bottom: number;
  columns: number;
  perLine: number;
  blockWidth: number;
  blockHeight: number;
}

export interface Layout<N extends { name: string }> {
  metrics: Metrics;
  width: number;
  height: number;
  bands: Band[];
  /** The nodes of all groups, in order. */
  nodes: { node: N; gpus: number }[];
}

/** A GPU of the map, or with GPU -1 a node. */
export interface Spot {
  node: number;
  gpu: number;
}

const mostPerLine = 8;
const groupSpace = 18;

export function layOut<N extends { name: string }>(groups: readonly Group<N>[], width: number, metrics: Metrics): Layout<N> {
  const layout: Layout<N> = { metrics, width, height: 0, bands: [], nodes: [] };
  for (const group of groups) {
    if (group.nodes.length === 0) continue;
    if (layout.bands.length > 0) layout.height += groupSpace;
    const band = bandOf(group, layout.nodes.length, layout.height, width, metrics);
    layout.bands.push(band);
    for (const node of group.nodes) layout.nodes.push(node);
    layout.height = band.bottom;
  }
  return layout;
}

function bandOf(group: Group<{ name: string }>, first: number, top: number, width: number, metrics: Metrics): Band {
  const pitch = metrics.cell + metrics.gap;
  const most = group.nodes.reduce((max, node) => Math.max(max, node.gpus), 1);
  const fits = Math.max(1, Math.floor((width + metrics.gap) / pitch));
  const perLine = Math.min(most, mostPerLine, fits);
  const lines = Math.ceil(most / perLine);
  const blockWidth = Math.max(perLine * pitch - metrics.gap, Math.min(metrics.leastWidth, width));
  const blockHeight = metrics.label + lines * pitch - metrics.gap;
  const columns = Math.max(1, Math.floor((width + metrics.spaceX) / (blockWidth + metrics.spaceX)));
  const count = group.nodes.length;
  const rowsTop = top + (group.title === "" ? 0 : metrics.heading);
  const rows = Math.ceil(count / columns);
  const bottom = rowsTop + rows * (blockHeight + metrics.spaceY) - metrics.spaceY;
  return { title: group.title, note: group.note, first, count, top, rowsTop, bottom, columns, perLine, blockWidth, blockHeight };
}

/** The bands of which something is between two heights, each with the range of its nodes that may be seen: from, and behind the last. */
export function visible(layout: Layout<{ name: string }>, top: number, bottom: number): { band: Band; from: number; to: number }[] {
  const seen: { band: Band; from: number; to: number }[] = [];
  for (let i = bandAt(layout, top); i < layout.bands.length; i++) {
    const band = layout.bands[i]!;
    if (band.top >= bottom) break;
    const height = rowHeight(layout, band);
    const firstRow = Math.max(0, Math.floor((top - band.rowsTop) / height));
    const endRow = Math.max(0, Math.ceil((bottom - band.rowsTop) / height));
    seen.push({
      band,
      from: Math.min(band.first + firstRow * band.columns, band.first + band.count),
      to: Math.min(band.first + endRow * band.columns, band.first + band.count),
    });
  }
  return seen;
}

export function nodeBox(layout: Layout<{ name: string }>, band: Band, node: number): Box {
  const place = node - band.first;
  return {
    x: (place % band.columns) * (band.blockWidth + layout.metrics.spaceX),
    y: band.rowsTop + Math.floor(place / band.columns) * rowHeight(layout, band),
    width: band.blockWidth,
    height: band.blockHeight,
  };
}

export function cellBox(layout: Layout<{ name: string }>, band: Band, spot: Spot): Box {
  const { cell, gap, label } = layout.metrics;
  const node = nodeBox(layout, band, spot.node);
  return {
    x: node.x + (spot.gpu % band.perLine) * (cell + gap),
    y: node.y + label + Math.floor(spot.gpu / band.perLine) * (cell + gap),
    width: cell,
    height: cell,
  };
}

export function bandOfNode(layout: Layout<{ name: string }>, node: number): Band | undefined {
  return layout.bands[lastWhere(layout.bands, (band) => band.first <= node)];
}

/** What is at a point; the space to the right of a GPU and below it counts as the GPU, so that there is no flicker between two. */
export function hit(layout: Layout<{ name: string }>, x: number, y: number): Spot | undefined {
  const band = layout.bands[bandAt(layout, y)];
  if (!band || x < 0 || y < band.rowsTop || y >= band.bottom) return undefined;
  const { cell, gap, label, spaceX } = layout.metrics;
  const column = Math.floor(x / (band.blockWidth + spaceX));
  const row = Math.floor((y - band.rowsTop) / rowHeight(layout, band));
  const place = row * band.columns + column;
  if (column >= band.columns || place >= band.count) return undefined;
  const node = band.first + place;
  const box = nodeBox(layout, band, node);
  const insideX = x - box.x;
  const insideY = y - box.y - label;
  if (insideX >= box.width || y - box.y >= box.height) return undefined;
  const inLine = Math.floor(insideX / (cell + gap));
  const gpu = Math.floor(insideY / (cell + gap)) * band.perLine + inLine;
  const isGPU = insideY >= 0 && inLine < band.perLine && gpu < (layout.nodes[node]?.gpus ?? 0);
  return { node, gpu: isGPU ? gpu : -1 };
}

export type Step = "left" | "right" | "up" | "down" | "home" | "end" | "pageup" | "pagedown";

/** Where the cursor goes. Left and right go from GPU to GPU, also to the next node; up and down to the node above or below. */
export function moveCursor(layout: Layout<{ name: string }>, at: Spot | undefined, step: Step, pageHeight: number): Spot | undefined {
  const last = layout.nodes.length - 1;
  if (last < 0) return undefined;
  if (!at || at.node > last) return { node: 0, gpu: 0 };
  switch (step) {
    case "left":
      return at.gpu > 0 ? { node: at.node, gpu: at.gpu - 1 } : at.node > 0 ? ends(layout, at.node - 1, Infinity) : at;
    case "right":
      return at.gpu + 1 < gpusOf(layout, at.node) ? { node: at.node, gpu: at.gpu + 1 }
        : at.node < last ? { node: at.node + 1, gpu: 0 } : at;
    case "home":
      return { node: 0, gpu: 0 };
    case "end":
      return ends(layout, last, Infinity);
    case "up":
    case "down":
      return vertical(layout, at, step === "up" ? -1 : 1);
    case "pageup":
    case "pagedown":
      return page(layout, at, step === "pageup" ? -1 : 1, pageHeight);
  }
}

function page(layout: Layout<{ name: string }>, at: Spot, direction: 1 | -1, height: number): Spot {
  const start = topOf(layout, at);
  let spot = at;
  for (;;) {
    const next = vertical(layout, spot, direction);
    if (next.node === spot.node) return next;
    spot = next;
    if (Math.abs(topOf(layout, spot) - start) >= height) return spot;
  }
}

function vertical(layout: Layout<{ name: string }>, at: Spot, direction: 1 | -1): Spot {
  const index = lastWhere(layout.bands, (band) => band.first <= at.node);
  const band = layout.bands[index]!;
  const place = at.node - band.first;
  const column = place % band.columns;
  const row = Math.floor(place / band.columns) + direction;
  const rows = Math.ceil(band.count / band.columns);
  if (row >= 0 && row < rows) {
    return ends(layout, band.first + Math.min(row * band.columns + column, band.count - 1), at.gpu);
  }
  const next = layout.bands[index + direction];
  if (!next) return at;
  const nextColumn = nearestColumn(layout, band, next, column);
  const nextRow = direction > 0 ? 0 : Math.ceil(next.count / next.columns) - 1;
  return ends(layout, next.first + Math.min(nextRow * next.columns + nextColumn, next.count - 1), at.gpu);
}

/** Groups may have nodes of different widths: the cursor stays where it is on the screen. */
function nearestColumn(layout: Layout<{ name: string }>, from: Band, to: Band, column: number): number {
  const x = column * (from.blockWidth + layout.metrics.spaceX);
  return Math.min(Math.round(x / (to.blockWidth + layout.metrics.spaceX)), to.columns - 1);
}

function ends(layout: Layout<{ name: string }>, node: number, gpu: number): Spot {
  return { node, gpu: Math.max(0, Math.min(gpu, gpusOf(layout, node) - 1)) };
}

function gpusOf(layout: Layout<{ name: string }>, node: number): number {
  return layout.nodes[node]?.gpus ?? 0;
}

function topOf(layout: Layout<{ name: string }>, at: Spot): number {
  const band = bandOfNode(layout, at.node);
  return band ? nodeBox(layout, band, at.node).y : 0;
}

function rowHeight(layout: Layout<{ name: string }>, band: Band): number {
  return band.blockHeight + layout.metrics.spaceY;
}

/** The index of the band at a height, or of the first one. */
function bandAt(layout: Layout<{ name: string }>, y: number): number {
  return Math.max(0, lastWhere(layout.bands, (band) => band.top <= y));
}

/** The index of the last item for which a condition holds, which holds for all before it too; -1 for none. */
function lastWhere<T>(items: readonly T[], holds: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(items[middle]!)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
