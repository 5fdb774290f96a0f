// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

import type { GPUDetails, GPUHolder, GPUSlice, Use } from "../api";
import { list } from "../format";
import { useFetched, useRow } from "../page";
import { Facts } from "../parts/Facts";
import { Failed, Loading } from "../parts/Notes";
import { Table } from "../parts/Table";
import { Time } from "../parts/Time";
import { links } from "../route";

const useTexts: Record<Use, string> = {
  Free: "Free", Busy: "Busy", Shared: "Shared", Reserved: "Reserved", Closed: "Free, but its node is cordoned or not ready", Divided: "Divided into MIG slices",
  Unhealthy: "Unhealthy",
};

/** A GPU in detail, beside the map. */
export function GPUPanel({ node, gpu, onClose }: { node: string; gpu: number; onClose: () => void }): JSX.Element {
  const row = useRow("nodes", node);
  const load = useRow("load", node)?.[gpu];
  const details = useFetched<GPUDetails>(`gpus/${encodeURIComponent(node)}/${gpu}`, row);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    onClose();
  };
  return (
    <aside class="card panel" aria-labelledby="panel-title" onKeyDown={onKeyDown}>
      <div class="panel-head">
        <h2 id="panel-title" tabIndex={-1} ref={heading}>{node}, GPU {gpu}</h2>
        <button type="button" class="small" onClick={onClose}>Close</button>
      </div>
      <Failed message={details.error} />
      {details.value ? <Details details={details.value} notice={row?.notice} load={load} /> : details.error === "" && <Loading what="the GPU" />}
    </aside>
  );
}

function Details({ details, notice, load }: { details: GPUDetails; notice: string | undefined; load: number | undefined }): JSX.Element {
  return (
    <>
      <Facts
        facts={[
          { label: "State", value: useTexts[details.use] ?? details.use },
          { label: "Health", value: details.health },
          { label: "Node", value: notice },
          load !== undefined && load >= 0 && { label: "Utilisation", value: `${load}%` },
          { label: "Model", value: details.model },
          { label: "Memory", value: details.memory },
          { label: "UUID", value: details.uuid && <code>{details.uuid}</code> },
        ]}
      />
      {list(details.slices).length > 0 && <Slices slices={list(details.slices)} />}
      <h3>{list(details.holders).length === 0 ? "Not in use" : "Held by"}</h3>
      {list(details.holders).map((holder) => <Holder key={holder.namespace + holder.pod} holder={holder} />)}
    </>
  );
}

/** The MIG slices of a GPU, with who has each. */
function Slices({ slices }: { slices: readonly GPUSlice[] }): JSX.Element {
  return (
    <>
      <h3>Its MIG slices</h3>
      <Table label="MIG slices of the GPU">
        <caption class="visually-hidden">The MIG slices of the GPU, and which Pod has each</caption>
        <thead><tr><th scope="col">Profile</th><th scope="col">Memory</th><th scope="col">Held by</th></tr></thead>
        <tbody>
          {slices.map((slice) => (
            <tr key={slice.uuid}><th scope="row" title={slice.uuid}>{slice.profile}</th><td>{slice.memory}</td><td>{slice.pod ?? (useTexts[slice.use] ?? slice.use)}</td></tr>
          ))}
        </tbody>
      </Table>
    </>
  );
}

function Holder({ holder }: { holder: GPUHolder }): JSX.Element {
  const { namespace, task, pod } = holder;
  return (
    <article class="holder">
      <h4>{task ? <a href={links.task(namespace, task)}>{namespace}/{task}</a> : `${namespace}/${pod}`}</h4>
      <Facts
        facts={[
          { label: "Pod", value: pod },
          { label: "Since", value: <Time at={holder.since} /> },
          holder.slices ? { label: "Has", value: holder.slices } : holder.percent < 100 && { label: "Share", value: `${holder.percent}% of the GPU` },
          { label: "For", value: holder.purpose },
          { label: "To move it", value: holder.moving },
        ]}
      />
    </article>
  );
}
