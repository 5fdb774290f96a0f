// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0
// Paints the part of the map that is seen. Every use of a GPU has a shape of its own: colours only add to it.

import type { Cell, Node } from "../api";
import { list } from "../format";
import { cellKey, holderName, holdersOf } from "./cells";
import { colourOf, type Colouring, type Palette } from "./colours";
import { cellBox, nodeBox, visible, type Band, type Box, type Layout, type Spot } from "./layout";
import { asCell, stripes } from "./slices";

/** "from" a Pod leaves, "to" it goes, "new" is where a Pod goes that does not run yet. */
export type Mark = "from" | "to" | "new";

export interface Scene {
  layout: Layout<Node>;
  load: ReadonlyMap<string, readonly number[]> | undefined;
  colouring: Colouring;
  marks: ReadonlyMap<string, Mark> | undefined;
  cursor: Spot | undefined;
  hover: Spot | undefined;
  /** The task whose other GPUs are shown too, because the pointer or the cursor is on one of them. */
  related: string | undefined;
}

export interface View {
  width: number;
  height: number;
  scrollTop: number;
  /** The device pixels of a CSS pixel. */
  ratio: number;
}

/** The space around the map, for what is drawn around the outermost GPUs. */
export const margin = 5;

const font = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

export function paint(context: CanvasRenderingContext2D, scene: Scene, view: View): void {
  const { layout, colouring: { palette } } = scene;
  context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  context.fillStyle = palette.page;
  context.fillRect(0, 0, view.width, view.height);
  context.translate(margin, margin - view.scrollTop);
  const seen = visible(layout, view.scrollTop - margin, view.scrollTop + view.height);
  for (const { band, from, to } of seen) {
    if (band.title !== "") paintHeading(context, band, palette, layout.metrics.heading, view.width);
    for (let index = from; index < to; index++) paintNode(context, scene, band, index);
  }
  for (const spot of [scene.hover, scene.cursor]) {
    const band = spot && seen.find((one) => spot.node >= one.from && spot.node < one.to)?.band;
    if (spot && band) paintCursor(context, scene, band, spot, spot === scene.cursor);
  }
}

function paintHeading(context: CanvasRenderingContext2D, band: Band, palette: Palette, height: number, width: number): void {
  const base = band.top + height - 11;
  context.textBaseline = "alphabetic";
  context.font = `600 13px ${font}`;
  context.fillStyle = palette.text;
  const title = fitted(context, band.title, Math.max(80, width - 140));
  context.fillText(title, 0, base);
  const titleWidth = context.measureText(title).width;
  context.font = `12px ${font}`;
  context.fillStyle = palette.muted;
  context.fillText(band.note, titleWidth + 10, base);
}

function paintNode(context: CanvasRenderingContext2D, scene: Scene, band: Band, index: number): void {
  const { layout, colouring: { palette } } = scene;
  const item = layout.nodes[index];
  if (!item) return;
  const { node } = item;
  if (layout.metrics.label > 0) {
    const box = nodeBox(layout, band, index);
    context.font = `11px ${font}`;
    context.textBaseline = "top";
    context.fillStyle = node.notice ? palette.attention : palette.muted;
    context.fillText(fitted(context, (node.notice ? "⚠ " : "") + node.name, box.width), box.x, box.y);
  }
  const load = scene.load?.get(node.name);
  const cells = list(node.gpus);
  for (let gpu = 0; gpu < cells.length; gpu++) {
    const cell = cells[gpu]!;
    const box = cellBox(layout, band, { node: index, gpu });
    if (cell.use === "Divided") paintDivided(context, box, cell, (part) => colourOf(scene.colouring, node, part, load?.[gpu]), palette);
    else paintCell(context, box, cell, colourOf(scene.colouring, node, cell, load?.[gpu]), palette);
    if (scene.related !== undefined && isOf(node, cell, scene.related)) ring(context, box, palette.text, 1.5, 0);
    const mark = scene.marks?.get(cellKey(node.name, gpu));
    if (mark) paintMark(context, box, mark, palette);
  }
}

function isOf(node: Node, cell: Cell, task: string): boolean {
  return holdersOf(node, cell).some((holder) => holderName(holder) === task);
}

/** Paints a GPU. The legend uses it too. */
export function paintCell(context: CanvasRenderingContext2D, box: Box, cell: Pick<Cell, "use" | "percent">, colour: string, palette: Palette): void {
  const { x, y, width, height } = box;
  switch (cell.use) {
    case "Free":
      frame(context, box, palette.free, palette.outline);
      return;
    case "Busy":
      frame(context, box, colour, palette.edge);
      return;
    case "Shared": {
      frame(context, box, palette.free, palette.outline);
      const filled = Math.max(2, Math.round(((height - 2) * (cell.percent ?? 0)) / 100));
      context.fillStyle = colour;
      context.fillRect(x + 1, y + height - 1 - filled, width - 2, filled);
      return;
    }
    case "Reserved":
      frame(context, box, palette.page, palette.reserved);
      hatch(context, box, palette.reserved);
      return;
    case "Unhealthy":
      frame(context, box, palette.unhealthyFill, palette.unhealthy);
      cross(context, box, palette.unhealthy);
      return;
    case "Closed":
      frame(context, box, palette.page, palette.closed, [2, 2]);
      dots(context, box, palette.closed);
  }
}

/** Paints a GPU that is divided: a stripe for each slice, as high as its part of the GPU. The legend uses it too. */
export function paintDivided(context: CanvasRenderingContext2D, box: Box, cell: Cell, colour: (cell: Cell) => string, palette: Palette): void {
  const { x, y, width, height } = box;
  frame(context, box, palette.page, palette.outline);
  for (const { slice, top, height: high } of stripes(list(cell.slices), height - 2)) {
    context.fillStyle = slice.use === "Busy" ? colour(asCell(slice)) : slice.use === "Free" ? palette.free : palette.closed;
    context.fillRect(x + 1, y + 1 + top, width - 2, high);
    // A line below each slice tells it from the next, where there is room for one.
    if (high < 2) continue;
    context.fillStyle = palette.outline;
    context.fillRect(x + 1, y + top + high, width - 2, 1);
  }
}

function frame(context: CanvasRenderingContext2D, { x, y, width, height }: Box, fill: string, edge: string, dash: number[] = []): void {
  context.fillStyle = fill;
  context.fillRect(x, y, width, height);
  context.strokeStyle = edge;
  context.lineWidth = 1;
  if (dash.length > 0) context.setLineDash(dash);
  context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  if (dash.length > 0) context.setLineDash([]);
}

function hatch(context: CanvasRenderingContext2D, { x, y, width, height }: Box, colour: string): void {
  context.beginPath();
  for (let offset = 4; offset < width + height; offset += 4) {
    context.moveTo(x + Math.max(0, offset - height), y + Math.min(offset, height));
    context.lineTo(x + Math.min(offset, width), y + Math.max(0, offset - width));
  }
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
}

function cross(context: CanvasRenderingContext2D, { x, y, width, height }: Box, colour: string): void {
  const inset = Math.max(2, width * 0.22);
  context.beginPath();
  context.moveTo(x + inset, y + inset);
  context.lineTo(x + width - inset, y + height - inset);
  context.moveTo(x + width - inset, y + inset);
  context.lineTo(x + inset, y + height - inset);
  context.strokeStyle = colour;
  context.lineWidth = width > 12 ? 2 : 1.5;
  context.stroke();
}

function dots(context: CanvasRenderingContext2D, { x, y, width, height }: Box, colour: string): void {
  context.fillStyle = colour;
  for (let dy = 4; dy < height - 2; dy += 4) {
    for (let dx = 4; dx < width - 2; dx += 4) context.fillRect(x + dx - 0.5, y + dy - 0.5, 1.5, 1.5);
  }
}

/** Marks a GPU of a move or a place, with a frame and a sign. The legend uses it too. */
export function paintMark(context: CanvasRenderingContext2D, box: Box, mark: Mark, palette: Palette): void {
  const { x, y, width, height } = box;
  context.strokeStyle = palette.highlight;
  context.lineWidth = 2;
  context.setLineDash(mark === "from" ? [3, 2] : []);
  context.strokeRect(x - 1, y - 1, width + 2, height + 2);
  context.setLineDash([]);
  if (width < 10) return;
  const centreX = x + width / 2;
  const centreY = y + height / 2;
  const arm = Math.min(5, width / 4);
  context.fillStyle = palette.page;
  context.beginPath();
  context.arc(centreX, centreY, arm + 2, 0, 2 * Math.PI);
  context.fill();
  context.beginPath();
  sign(context, mark, centreX, centreY, arm);
  context.strokeStyle = palette.highlight;
  context.lineWidth = 1.5;
  context.stroke();
}

/** A plus for what is new, an arrow down for what comes, an arrow up for what goes. */
function sign(context: CanvasRenderingContext2D, mark: Mark, x: number, y: number, arm: number): void {
  context.moveTo(x, y - arm);
  context.lineTo(x, y + arm);
  if (mark === "new") {
    context.moveTo(x - arm, y);
    context.lineTo(x + arm, y);
    return;
  }
  const tip = mark === "to" ? y + arm : y - arm;
  const back = mark === "to" ? tip - arm * 0.8 : tip + arm * 0.8;
  context.moveTo(x - arm * 0.8, back);
  context.lineTo(x, tip);
  context.lineTo(x + arm * 0.8, back);
}

function paintCursor(context: CanvasRenderingContext2D, scene: Scene, band: Band, spot: Spot, isCursor: boolean): void {
  const { layout, colouring: { palette } } = scene;
  const box = spot.gpu < 0 ? nodeBox(layout, band, spot.node) : cellBox(layout, band, spot);
  if (!isCursor) {
    ring(context, box, palette.text, 1.5, 1);
    return;
  }
  ring(context, box, palette.page, 2, 1);
  ring(context, box, palette.accent, 2.5, 3);
}

function ring(context: CanvasRenderingContext2D, { x, y, width, height }: Box, colour: string, line: number, distance: number): void {
  context.strokeStyle = colour;
  context.lineWidth = line;
  context.strokeRect(x - distance, y - distance, width + 2 * distance, height + 2 * distance);
}

/** Texts that were made to fit before: measuring takes longer than all else that is painted of a node. */
const fittedTexts = new Map<string, string>();

function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  const key = `${Math.round(width)} ${context.font.length} ${text}`;
  let result = fittedTexts.get(key);
  if (result === undefined) {
    result = shorten(context, text, width);
    if (fittedTexts.size > 50_000) fittedTexts.clear();
    fittedTexts.set(key, result);
  }
  return result;
}

/** Cuts a text in its middle: names that belong together differ at their ends. */
function shorten(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let low = 1;
  let high = text.length - 1;
  while (low < high) {
    const kept = (low + high + 1) >> 1;
    if (context.measureText(cut(text, kept)).width <= width) low = kept;
    else high = kept - 1;
  }
  return cut(text, low);
}

function cut(text: string, kept: number): string {
  const end = Math.ceil(kept * 0.6);
  return `${text.slice(0, kept - end)}…${text.slice(text.length - end)}`;
}
