// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from "preact";

import type { Line } from "../api";
import { list } from "../format";

export interface Fact {
  label: string;
  value: ComponentChildren;
}

/** Labels with values; those without a value are left out. */
export function Facts({ facts }: { facts: readonly (Fact | false | undefined)[] }): JSX.Element {
  return (
    <dl class="facts">
      {facts.map((fact) => fact && fact.value !== undefined && fact.value !== "" && (
        <div key={fact.label}><dt>{fact.label}</dt><dd>{fact.value}</dd></div>
      ))}
    </dl>
  );
}

export function Lines({ lines }: { lines: readonly Line[] | undefined }): JSX.Element | null {
  if (list(lines).length === 0) return null;
  return <Facts facts={list(lines).map(({ label, text }) => ({ label, value: text }))} />;
}

/** What would let a task start, each alone. */
export function Remedies({ remedies }: { remedies: readonly string[] | undefined }): JSX.Element | null {
  const all = list(remedies);
  if (all.length === 0) return null;
  return (
    <>
      <h3>{all.length === 1 ? "It would start" : "Each of these alone would let it start"}</h3>
      <ul class="sentences">{all.map((remedy) => <li key={remedy}>{remedy}</li>)}</ul>
    </>
  );
}
