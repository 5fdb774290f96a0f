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
