// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import type { Cell, Use } from "../api";
import { number } from "../format";
import { useCollection, useSummary } from "../page";
import { useTheme } from "../theme";
import { paletteOf, priorityStep, taskColours, type ColourBy, type Palette } from "./colours";
import { paintCell, paintDivided, paintMark, type Mark } from "./draw";

const uses: { use: Use; percent?: number; text: string }[] = [
  { use: "Free", text: "Free" },
  { use: "Busy", text: "Busy" },
  { use: "Shared", percent: 60, text: "Shared, filled as far as allocated" },
  { use: "Reserved", text: "Reserved" },
  { use: "Closed", text: "Free, but the node is cordoned or not ready" },
  { use: "Unhealthy", text: "Unhealthy" },
];

export const markTexts: Record<Mark, string> = {
  from: "A Pod leaves",
  to: "A Pod arrives",
  new: "Room for a new Pod",
};

export interface LegendProps {
  colourBy: ColourBy;
  priorities?: readonly number[];
  marks?: readonly Mark[];
  /** Without what the colours of busy GPUs tell. */
  brief?: boolean;
  /** Shown on demand. */
  folded?: boolean;
}

/** What the squares of a map mean. */
export function Legend({ folded = false, ...props }: LegendProps): JSX.Element {
  return folded ? <details><summary>Legend</summary><Squares {...props} /></details> : <Squares {...props} />;
}

function Squares({ colourBy, priorities = [], marks = [], brief = false }: LegendProps): JSX.Element {
  const palette = paletteOf(useTheme());
  const divided = (useSummary()?.total.divided ?? 0) > 0;
  return (
    <div class="legend">
      <ul aria-label="Legend">
        {uses.map(({ use, percent, text }) => (
          <li key={use}><Swatch paint={(context, side) => cell(context, side, use, percent, palette)} palette={palette} />{text}</li>
        ))}
        {divided && <li><Swatch paint={(context, side) => dividedCell(context, side, palette)} palette={palette} />Divided into MIG slices</li>}
        {marks.map((mark) => (
          <li key={mark}><Swatch paint={(context, side) => markCell(context, side, mark, palette)} palette={palette} />{markTexts[mark]}</li>
        ))}
      </ul>
      {!brief && <Colours colourBy={colourBy} priorities={priorities} palette={palette} />}
    </div>
  );
}

function Colours({ colourBy, priorities, palette }: { colourBy: ColourBy; priorities: readonly number[]; palette: Palette }): JSX.Element {
  switch (colourBy) {
    case "task":
      return (
        <p class="legend-colours">
          <TaskNames palette={palette} />
          <span class="nowrap"><Fill colours={[palette.unknown]} /> Pods of other controllers</span>
        </p>
      );
    case "priority":
      return priorities.length === 0 ? <p class="legend-colours">Colour: priority. Nothing runs.</p> : (
        <p class="legend-colours">
          <span>Colour: priority, from {number(priorities[0]!)}</span>
          <Fill colours={priorities.length > 8 ? palette.scale : priorities.map((priority) => priorityStep(palette, priorities, priority))} />
          <span>to {number(priorities[priorities.length - 1]!)}</span>
        </p>
      );
    case "utilisation":
      return (
        <p class="legend-colours">
          <span>Colour: utilisation, from 0%</span><Fill colours={palette.scale} /><span>to 100%;</span>
          <span>not known</span><Fill colours={[palette.unknown]} />
        </p>
      );
    case "health":
      return (
        <p class="legend-colours">
          <span>Colour: the node is ready</span><Fill colours={[palette.plain]} />
          <span>it is cordoned or not ready</span><Fill colours={[palette.attention]} />
        </p>
      );
  }
}

/** Which task has which colour, unless there are many. */
function TaskNames({ palette }: { palette: Palette }): JSX.Element {
  useCollection("nodes"); // the tasks change with them
  if (taskColours.size === 0 || taskColours.size > palette.tasks.length) {
    return <><span>Colour: each task has its own</span><Fill colours={palette.tasks.slice(0, 6)} /></>;
  }
  return <>{taskColours.all().map(([name, index]) => <span key={name} class="nowrap"><Fill colours={[palette.tasks[index] ?? palette.plain]} /> {name}</span>)}</>;
}

function Fill({ colours }: { colours: readonly string[] }): JSX.Element {
  return <span class="legend-fill" aria-hidden="true">{colours.map((colour) => <i key={colour} style={{ background: colour }} />)}</span>;
}

const side = 16;

function Swatch({ paint, palette }: { paint: (context: CanvasRenderingContext2D, side: number) => void; palette: Palette }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || !canvas.current) return;
    const ratio = devicePixelRatio || 1;
    canvas.current.width = canvas.current.height = Math.round((side + 4) * ratio);
    context.setTransform(ratio, 0, 0, ratio, 2 * ratio, 2 * ratio);
    paint(context, side);
  }, [palette]);
  return <canvas ref={canvas} class="swatch" aria-hidden="true" />;
}

function cell(context: CanvasRenderingContext2D, size: number, use: Use, percent: number | undefined, palette: Palette): void {
  paintCell(context, { x: 0, y: 0, width: size, height: size }, { use, ...(percent === undefined ? {} : { percent }) }, palette.plain, palette);
}

function dividedCell(context: CanvasRenderingContext2D, size: number, palette: Palette): void {
  const cell: Cell = {
    use: "Divided",
    slices: [{ profile: "", use: "Busy", compute: 3 }, { profile: "", use: "Free", compute: 2 }, { profile: "", use: "Busy", compute: 2 }],
  };
  paintDivided(context, { x: 0, y: 0, width: size, height: size }, cell, () => palette.plain, palette);
}

function markCell(context: CanvasRenderingContext2D, size: number, mark: Mark, palette: Palette): void {
  const box = { x: 0, y: 0, width: size, height: size };
  paintCell(context, box, { use: mark === "from" ? "Busy" : "Free" }, palette.plain, palette);
  paintMark(context, box, mark, palette);
}
