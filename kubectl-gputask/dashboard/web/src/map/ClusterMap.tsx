// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Node } from "../api";
import { list } from "../format";
import { useTheme } from "../theme";
import { cellText, holderName, holdersOf } from "./cells";
import { paletteOf, prioritiesOf, type ColourBy } from "./colours";
import { margin, paint, type Mark, type Scene } from "./draw";
import { bandOfNode, cellBox, hit, layOut, moveCursor, nodeBox, type Group, type Layout, type Metrics, type Spot, type Step } from "./layout";

export type Size = "small" | "medium" | "large";

const sizes: Record<Size, Metrics> = {
  small: { cell: 10, gap: 2, label: 14, leastWidth: 74, spaceX: 14, spaceY: 9, heading: 28 },
  medium: { cell: 14, gap: 3, label: 15, leastWidth: 96, spaceX: 18, spaceY: 12, heading: 30 },
  large: { cell: 20, gap: 4, label: 17, leastWidth: 116, spaceX: 24, spaceY: 16, heading: 32 },
};

export interface ClusterMapProps {
  /** What the map shows, for those who don't see it. */
  label: string;
  groups: readonly Group<Node>[];
  size: Size;
  colourBy?: ColourBy;
  load?: ReadonlyMap<string, readonly number[]>;
  marks?: ReadonlyMap<string, Mark>;
  /** Changes when the groups or the load have other contents. */
  version?: unknown;
  /** The greatest height, as CSS writes it; what is beyond can be scrolled to. */
  mostHeight?: string;
  onOpen?: (node: string, gpu: number) => void;
}

const steps: Record<string, Step> = {
  ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down",
  Home: "home", End: "end", PageUp: "pageup", PageDown: "pagedown",
};

/** All GPUs, each as a square. Only what is seen is painted, however many there are. */
export function ClusterMap(props: ClusterMapProps): JSX.Element {
  const { groups, size, label, onOpen } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useSizeOf(scroller);
  const theme = useTheme();
  const layout = useMemo(() => layOut(groups, Math.max(1, view.width - 2 * margin), sizes[size]), [groups, view.width, size]);
  const [cursor, setCursor] = useState<{ node: string; gpu: number }>();
  const [focused, setFocused] = useState(false);
  const [hover, setHover] = useState<{ spot: Spot; x: number; y: number }>();
  const spot = useMemo(() => spotOf(layout, cursor), [layout, cursor]);
  const hovered = hover && layout.nodes[hover.spot.node] ? hover.spot : undefined;

  const palette = paletteOf(theme);
  const priorities = useMemo(() => (props.colourBy === "priority" ? prioritiesOf(nodesOf(layout)) : []), [layout, props.colourBy, props.version]);
  const scene: Scene = {
    layout, load: props.load, colouring: { by: props.colourBy ?? "task", palette, priorities }, marks: props.marks,
    cursor: focused ? spot : undefined, hover: hovered, related: relatedTask(layout, hovered ?? (focused ? spot : undefined)),
  };
  const repaint = useCanvas(canvas, scroller, scene, view.width, view.height);

  const move = (step: Step) => {
    const next = moveCursor(layout, spot, step, view.height);
    if (!next) return;
    setCursor({ node: layout.nodes[next.node]!.node.name, gpu: next.gpu });
    reveal(scroller.current, layout, next);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = steps[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (step) {
      event.preventDefault();
      event.stopPropagation();
      move(step);
    } else if ((event.key === "Enter" || event.key === " ") && cursor && cursor.gpu >= 0 && onOpen) {
      event.preventDefault();
      onOpen(cursor.node, cursor.gpu);
    } else if (event.key === "Escape") {
      setHover(undefined);
    }
  };
  const onPointerMove = (event: PointerEvent) => {
    const found = spotUnder(event, canvas.current, scroller.current, layout);
    if (found?.node === hover?.spot.node && found?.gpu === hover?.spot.gpu) return;
    const box = scroller.current!.getBoundingClientRect();
    setHover(found && { spot: found, x: event.clientX - box.left, y: event.clientY - box.top });
  };
  const onClick = (event: MouseEvent) => {
    const found = spotUnder(event, canvas.current, scroller.current, layout);
    const node = found && layout.nodes[found.node]?.node;
    if (!node) return;
    setCursor({ node: node.name, gpu: Math.max(0, found.gpu) });
    if (found.gpu >= 0) onOpen?.(node.name, found.gpu);
  };
  const onFocus = () => {
    setFocused(true);
    if (!spot && layout.nodes.length > 0) setCursor({ node: layout.nodes[0]!.node.name, gpu: 0 });
  };

  const tall = layout.height + 2 * margin;
  return (
    <div class="map">
      <div class="map-scroller" ref={scroller} onScroll={repaint} tabIndex={-1} style={{ maxHeight: props.mostHeight ?? "none" }}>
        <div class="map-inner" style={{ height: `${tall}px` }}>
          <canvas
            ref={canvas} class={onOpen ? "map-canvas opens" : "map-canvas"} tabIndex={0} role="application" aria-roledescription="map of GPUs"
            aria-label={`${label} The arrow keys go from GPU to GPU${onOpen ? ", Enter shows more about one" : ""}.`}
            onKeyDown={onKeyDown} onPointerMove={onPointerMove} onPointerLeave={() => setHover(undefined)} onClick={onClick}
            onFocus={onFocus} onBlur={() => setFocused(false)}
          />
        </div>
      </div>
      {hovered && hover && <Tooltip node={layout.nodes[hovered.node]!.node} gpu={hovered.gpu} load={props.load} x={hover.x} y={hover.y} width={view.width} />}
      <Spoken layout={layout} spot={focused ? spot : undefined} load={props.load} />
    </div>
  );
}

/** Says what is under the cursor. Changes of the cluster alone are not spoken: they would never end. */
function Spoken({ layout, spot, load }: { layout: Layout<Node>; spot: Spot | undefined; load: ClusterMapProps["load"] }): JSX.Element {
  const node = spot && layout.nodes[spot.node]?.node;
  const text = useMemo(() => (node && spot ? cellText(node, spot.gpu, new Date(), load?.get(node.name)) : ""), [node?.name, spot?.gpu]);
  return <p class="map-spoken" aria-live="polite">{text}</p>;
}

function Tooltip(props: { node: Node; gpu: number; load: ClusterMapProps["load"]; x: number; y: number; width: number }): JSX.Element {
  const { node, gpu } = props;
  const text = gpu < 0 ? nodeText(node) : cellText(node, gpu, new Date(), props.load?.get(node.name));
  const right = props.x > props.width / 2;
  const style = { top: `${props.y + 16}px`, ...(right ? { right: `${props.width - props.x + 6}px` } : { left: `${props.x + 10}px` }) };
  return <div class="tooltip" style={style} aria-hidden="true">{text}</div>;
}

function nodeText(node: Node): string {
  const parts = [node.name, node.model ?? "", node.pool ? `pool ${node.pool}` : "", list(node.domains).filter((domain) => domain !== "").join(" / "), node.notice ?? ""];
  return parts.filter((part) => part !== "").join(", ");
}

function* nodesOf(layout: Layout<Node>): Generator<Node> {
  for (const { node } of layout.nodes) yield node;
}

function spotOf(layout: Layout<Node>, cursor: { node: string; gpu: number } | undefined): Spot | undefined {
  if (!cursor) return undefined;
  const node = layout.nodes.findIndex((item) => item.node.name === cursor.node);
  return node < 0 ? undefined : { node, gpu: Math.min(cursor.gpu, Math.max(0, layout.nodes[node]!.gpus - 1)) };
}

function relatedTask(layout: Layout<Node>, spot: Spot | undefined): string | undefined {
  const node = spot && layout.nodes[spot.node]?.node;
  const cell = node && list(node.gpus)[spot.gpu];
  const holders = cell ? holdersOf(node, cell) : [];
  return holders.length === 1 ? holderName(holders[0]!) : undefined;
}

function spotUnder(event: MouseEvent, canvas: HTMLCanvasElement | null, scroller: HTMLDivElement | null, layout: Layout<Node>): Spot | undefined {
  if (!canvas || !scroller) return undefined;
  const box = canvas.getBoundingClientRect();
  return hit(layout, event.clientX - box.left - margin, event.clientY - box.top - margin + seenPart(scroller).top);
}

function reveal(scroller: HTMLDivElement | null, layout: Layout<Node>, spot: Spot): void {
  const band = bandOfNode(layout, spot.node);
  if (!scroller || !band) return;
  const node = nodeBox(layout, band, spot.node);
  const box = spot.gpu < 0 ? node : cellBox(layout, band, spot);
  const top = Math.min(node.y, box.y) - layout.metrics.heading;
  const bottom = box.y + box.height + 4 * margin;
  const seen = seenPart(scroller);
  const by = top < seen.top ? Math.max(0, top) - seen.top : bottom > seen.top + seen.height ? bottom - seen.height - seen.top : 0;
  if (scrollsAlone(scroller)) scroller.scrollTop += by;
  else scrollBy(0, by);
}

/** Reports whether the map scrolls by itself. On a narrow page the style sheet has it scroll with the page. */
function scrollsAlone(scroller: HTMLElement): boolean {
  return getComputedStyle(scroller).overflowY !== "visible";
}

/** The part of the map that the canvas covers: a canvas can't be as high as the map of a large cluster. */
function seenPart(scroller: HTMLElement): { top: number; height: number } {
  if (scrollsAlone(scroller)) return { top: scroller.scrollTop, height: scroller.clientHeight };
  const height = Math.min(scroller.clientHeight, innerHeight);
  return { top: Math.min(Math.max(0, -scroller.getBoundingClientRect().top), scroller.clientHeight - height), height };
}

function useSizeOf(element: { current: HTMLDivElement | null }): { width: number; height: number } {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const measure = () => {
      const current = element.current;
      if (!current) return;
      const next = { width: current.clientWidth, height: seenPart(current).height };
      setSize((old) => (old.width === next.width && old.height === next.height ? old : next));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element.current!);
    addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      removeEventListener("resize", measure);
    };
  }, []);
  return size;
}

/** Paints once in a frame at most, when the scene has changed or the map was scrolled. */
function useCanvas(
  canvas: { current: HTMLCanvasElement | null }, scroller: { current: HTMLDivElement | null }, scene: Scene, width: number, height: number,
): () => void {
  const state = useRef({ scene, frame: 0 });
  state.current.scene = scene;
  const draw = () => {
    state.current.frame = 0;
    const target = canvas.current;
    const context = target?.getContext("2d", { alpha: false });
    if (!target || !context || !scroller.current) return;
    const ratio = devicePixelRatio || 1;
    const seen = seenPart(scroller.current);
    fit(target, scroller.current.clientWidth, seen.height, ratio);
    paint(context, state.current.scene, { width: scroller.current.clientWidth, height: seen.height, scrollTop: seen.top, ratio });
  };
  const schedule = () => {
    if (state.current.frame === 0) state.current.frame = requestAnimationFrame(draw);
  };
  useLayoutEffect(() => {
    // A canvas of another size is empty: it must not be seen like that.
    if (width > 0) draw();
  }, [width, height]);
  useLayoutEffect(schedule);
  useEffect(() => {
    const onPageScroll = () => { if (scroller.current && !scrollsAlone(scroller.current)) schedule(); };
    addEventListener("scroll", onPageScroll, { passive: true });
    return () => {
      removeEventListener("scroll", onPageScroll);
      cancelAnimationFrame(state.current.frame);
    };
  }, []);
  return schedule;
}

function fit(canvas: HTMLCanvasElement, width: number, height: number, ratio: number): void {
  const pixelsX = Math.round(width * ratio);
  const pixelsY = Math.round(height * ratio);
  if (canvas.width === pixelsX && canvas.height === pixelsY) return;
  canvas.width = pixelsX;
  canvas.height = pixelsY;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
}
