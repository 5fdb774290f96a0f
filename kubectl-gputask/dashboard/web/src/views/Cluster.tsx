// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Summary } from "../api";
import { list, number } from "../format";
import { ClusterMap, type Size } from "../map/ClusterMap";
import { colourings, prioritiesOf, type ColourBy } from "../map/colours";
import { defaultGrouping, groupings, groupNodes, sortedNames } from "../map/groups";
import { Legend } from "../map/Legend";
import { NodeTable } from "../map/NodeTable";
import { useCollection, useKept, useSummary } from "../page";
import { Choice } from "../parts/Choice";
import { Empty, Loading } from "../parts/Notes";
import { GPUPanel } from "./GPUPanel";
import { Models, NextInLine, Numbers } from "./Overview";

export function ClusterView({ find }: { find: string }): JSX.Element {
  const summary = useSummary();
  return (
    <>
      <h1 class="visually-hidden">Cluster</h1>
      {summary ? (
        <>
          <Numbers summary={summary} />
          <NextInLine />
          <MapSection summary={summary} find={find} />
        </>
      ) : <Loading what="the cluster" />}
    </>
  );
}

function MapSection({ summary, find }: { summary: Summary; find: string }): JSX.Element {
  const levels = list(summary.levels);
  const nodes = useCollection("nodes");
  const load = useCollection("load");
  const [grouping, setGrouping] = useKept("group", defaultGrouping(levels));
  const [colourBy, setColourBy] = useKept<ColourBy>("colour", "task");
  const [size, setSize] = useKept<Size | "fitting">("size", "fitting");
  const [text, setText] = useState(find);
  const [onlyFree, setOnlyFree] = useState(false);
  const [open, setOpen] = useState<{ node: string; gpu: number }>();
  const panelOpener = useRef<HTMLElement | null>(null);
  useEffect(() => setText(find), [find]);
  const [mapTop, top] = useTop();

  const choices = groupings(levels);
  const chosen = choices.some((choice) => choice.value === grouping) ? grouping : defaultGrouping(levels);
  const names = useMemo(() => sortedNames(nodes.rows), [nodes.keyChanges]);
  const groups = useMemo(
    () => groupNodes(names, nodes.rows, levels, chosen, { text, onlyFree }),
    [names, nodes.changes, levels.join("\n"), chosen, text, onlyFree],
  );
  const shown = useMemo(() => groups.flatMap((group) => group.nodes.map((item) => item.node)), [groups]);
  const priorities = useMemo(() => (colourBy === "priority" ? prioritiesOf(shown) : []), [shown, colourBy]);

  const show = (node: string, gpu: number) => {
    panelOpener.current = document.activeElement instanceof HTMLElement ? document.activeElement : null;
    setOpen({ node, gpu });
  };
  const close = () => {
    setOpen(undefined);
    panelOpener.current?.focus();
  };
  return (
    <section aria-labelledby="gpus" class={open ? "with-panel" : ""}>
      <div class="card map-card">
        <div class="card-head">
          <h2 id="gpus">GPUs</h2>
          <Models summary={summary} onFind={setText} text={text} />
        </div>
        <form class="toolbar" role="search" aria-label="Nodes" onSubmit={(event) => event.preventDefault()}>
          <label class="field grow">
            <span>Find</span>
            <input type="search" value={text} placeholder="node, GPU model, pool or task" onInput={(event) => setText(event.currentTarget.value)} />
          </label>
          <Choice label="Group by" value={chosen} options={choices} onChange={setGrouping} />
          <Choice label="Colour by" value={colourBy} options={colourings} onChange={setColourBy} />
          <Choice label="Size" value={size} options={sizes} onChange={setSize} />
          <label class="check">
            <input type="checkbox" checked={onlyFree} onChange={(event) => setOnlyFree(event.currentTarget.checked)} />
            Only nodes with free GPUs
          </label>
        </form>
        <Legend colourBy={colourBy} priorities={priorities} />
        {colourBy === "utilisation" && !summary.metered && <p class="hint">No utilisation data: the node agent is not running, or its metrics can't be read.</p>}
        <p class="visually-hidden" role="status">{(text !== "" || onlyFree) && `${number(shown.length)} of ${number(names.length)} nodes are shown.`}</p>
        <div ref={mapTop} />
        {shown.length > 0 ? (
          <ClusterMap
            label="All GPUs by node." groups={groups} size={size === "fitting" ? fittingSize(shown.length) : size} colourBy={colourBy}
            load={load.rows} version={`${nodes.changes} ${load.changes}`} mostHeight={`max(22rem, calc(100vh - ${top}px - 6.5rem))`} onOpen={show}
          />
        ) : <Empty>{names.length === 0 ? "There are no nodes with GPUs that you may see." : "No node matches. Try fewer words, or show also nodes without free GPUs."}</Empty>}
        <NodeTable nodes={shown} levels={levels} />
      </div>
      {open && <GPUPanel key={`${open.node}/${open.gpu}`} node={open.node} gpu={open.gpu} onClose={close} />}
    </section>
  );
}

/** Where an element begins on the page: what is above it changes with the cluster. */
function useTop(): [{ current: HTMLDivElement | null }, number] {
  const element = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    if (element.current) setTop(Math.round(element.current.getBoundingClientRect().top + scrollY));
  });
  return [element, top];
}

const sizes: { value: Size | "fitting"; label: string }[] = [
  { value: "fitting", label: "Fitting" }, { value: "small", label: "Small" }, { value: "medium", label: "Medium" }, { value: "large", label: "Large" },
];

function fittingSize(nodes: number): Size {
  if (nodes <= 80) return "large";
  return nodes <= 400 ? "medium" : "small";
}
