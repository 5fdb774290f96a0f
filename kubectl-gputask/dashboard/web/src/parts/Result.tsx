// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { Move, Place } from "../api";
import { list } from "../format";
import { Legend } from "../map/Legend";
import { marksOf, nodesOf, PlaceMap } from "../map/PlaceMap";
import { useCollection } from "../page";
import { MoveTable, PlaceList } from "./Moves";

interface Props {
  moves?: readonly Move[] | undefined;
  places?: readonly Place[] | undefined;
  /** Whether the Pods are there. */
  placed?: boolean | undefined;
}

/** Moves that would make room, and where Pods would go or are, in words and on a map of the nodes as they are now. */
export function Result({ moves, places, placed }: Props): JSX.Element | null {
  const nodes = useCollection("nodes");
  const names = useMemo(() => nodesOf(moves, places), [moves, places]);
  const marks = useMemo(() => marksOf(moves, places), [moves, places]);
  if (names.length === 0) return null;
  const kinds = new Set(marks.values());
  return (
    <>
      <MoveTable moves={moves} />
      {list(places).length > 0 && <h3>{placed ? "Where it runs" : "Where it would go"}</h3>}
      <PlaceList places={places} />
      <PlaceMap label={placed ? "The nodes that it runs on, with its GPUs marked." : "The nodes that it would use, with the GPUs marked."} nodes={nodes.rows} names={names} marks={marks} version={nodes.changes} />
      <Legend colourBy="task" brief folded marks={(["from", "to", "new"] as const).filter((kind) => kinds.has(kind) && !placed)} />
    </>
  );
}
