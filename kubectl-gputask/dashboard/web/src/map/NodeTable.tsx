// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Node } from "../api";
import { list } from "../format";
import { Pages } from "../parts/Pages";
import { Table } from "../parts/Table";
import { freeGPUs } from "./cells";
import { freeSlicesText } from "./slices";

const perPage = 50;

/** The nodes of a map as text. */
export function NodeTable({ nodes, levels }: { nodes: readonly Node[]; levels: readonly string[] }): JSX.Element {
  const [open, setOpen] = useState(false);
  const [page, setPage] = useState(0);
  const shown = Math.min(page, Math.max(0, Math.ceil(nodes.length / perPage) - 1));
  return (
    <details class="as-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Nodes as a table</summary>
      {open && (
        <>
          <Table label="Nodes as a table">
            <caption class="visually-hidden">The nodes of the map above with their free GPUs</caption>
            <thead>
              <tr>
                <th scope="col">Node</th><th scope="col">GPU model</th><th scope="col">Pool</th>
                {levels.map((level) => <th scope="col" key={level} class="capital">{level}</th>)}
                <th scope="col" class="numeric">Free GPUs</th><th scope="col" class="numeric">GPUs</th><th scope="col">Notice</th>
              </tr>
            </thead>
            <tbody>
              {nodes.slice(shown * perPage, (shown + 1) * perPage).map((node) => (
                <tr key={node.name}>
                  <th scope="row">{node.name}</th><td>{node.model || "–"}</td><td>{node.pool || "–"}</td>
                  {levels.map((level, index) => <td key={level}>{list(node.domains)[index] || "–"}</td>)}
                  <td class="numeric">{freeGPUs(node)}</td><td class="numeric">{list(node.gpus).length}</td><td>{notice(node)}</td>
                </tr>
              ))}
            </tbody>
          </Table>
          <Pages page={shown} perPage={perPage} count={nodes.length} what="nodes" onPage={setPage} />
        </>
      )}
    </details>
  );
}

function notice(node: Node): string {
  const unhealthy = list(node.gpus).filter((gpu) => gpu.use === "Unhealthy").length;
  const slices = freeSlicesText(node);
  const parts = [node.notice ?? "", unhealthy > 0 ? `${unhealthy} unhealthy` : "", slices === "" ? "" : `MIG slices free: ${slices}`].filter((part) => part !== "");
  return parts.join("; ") || "–";
}
