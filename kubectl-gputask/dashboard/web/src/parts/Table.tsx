// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/**
 * A table. Where the page is narrow, each row becomes a card, whose cells carry the headings of their columns: the style sheet takes them from
 * data-label, and leaves out what has only a dash. A cell of class "state" stands beside the name, one of class "why" or "message" below it, then one of class "start".
 */
export function Table({ label, class: name, children }: { label: string; class?: string; children: ComponentChildren }): JSX.Element {
  const table = useRef<HTMLTableElement>(null);
  useLayoutEffect(() => { if (table.current) labelCells(table.current); });
  return <div class="table-scroll" tabIndex={0} role="group" aria-label={label}><table ref={table} class={name}>{children}</table></div>;
}

function labelCells(table: HTMLTableElement): void {
  const headings = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent ?? "");
  for (const cell of table.querySelectorAll<HTMLTableCellElement>("tbody td")) {
    const label = headings[cell.cellIndex] ?? "";
    if (cell.dataset["label"] !== label) cell.dataset["label"] = label;
    cell.toggleAttribute("data-empty", cell.textContent === "–");
  }
}
