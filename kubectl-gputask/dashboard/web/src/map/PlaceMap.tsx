// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { Move, Node, Place } from "../api";
import { compareNames, list } from "../format";
import { freeGPUs } from "./cells";
import { ClusterMap } from "./ClusterMap";
import type { Mark } from "./draw";
import type { Group } from "./layout";
import { cellKey } from "./cells";

export type Marks = ReadonlyMap<string, Mark>;

/** Marks for moves and for places of new Pods. */
export function marksOf(moves: readonly Move[] | undefined, places: readonly Place[] | undefined, kinds: readonly Mark[] = ["from", "to", "new"]): Marks {
  const marks = new Map<string, Mark>();
  const add = (place: Place, mark: Mark) => {
    if (!kinds.includes(mark)) return;
    for (const gpu of list(place.gpus)) marks.set(cellKey(place.node, gpu), mark);
  };
  for (const move of list(moves)) {
    add(move.from, "from");
    add(move.to, "to");
  }
  // Where a Pod leaves and another comes, the one that comes is what matters.
  for (const place of list(places)) add(place, "new");
  return marks;
}

export function nodesOf(moves: readonly Move[] | undefined, places: readonly Place[] | undefined): string[] {
  const names = [...list(moves).flatMap((move) => [move.from.node, move.to.node]), ...list(places).map((place) => place.node)];
  return [...new Set(names)].filter((name) => name !== "").sort(compareNames);
}

export interface PlaceMapProps {
  label: string;
  nodes: ReadonlyMap<string, Node>;
  /** The nodes that are drawn. */
  names: readonly string[];
  marks: Marks;
  version?: unknown;
  mostHeight?: string;
}

/** A map of some nodes, with the GPUs marked that something happens to. */
export function PlaceMap({ label, nodes, names, marks, version, mostHeight = "60vh" }: PlaceMapProps): JSX.Element | null {
  const groups = useMemo(() => [groupOf(nodes, names)], [nodes, names, version]);
  if (groups[0]!.nodes.length === 0) return null;
  return <ClusterMap label={label} groups={groups} size={names.length > 120 ? "medium" : "large"} marks={marks} version={version} mostHeight={mostHeight} />;
}

function groupOf(nodes: ReadonlyMap<string, Node>, names: readonly string[]): Group<Node> {
  const found = names.flatMap((name) => nodes.get(name) ?? []);
  const free = found.reduce((sum, node) => sum + freeGPUs(node), 0);
  return { title: "", note: `${free} free`, nodes: found.map((node) => ({ node, gpus: list(node.gpus).length })) };
}
