// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";

export interface PagesProps {
  page: number;
  perPage: number;
  count: number;
  what: string;
  onPage: (page: number) => void;
}

/** Buttons for the pages of a list; nothing if one page is enough. */
export function Pages({ page, perPage, count, what, onPage }: PagesProps): JSX.Element | null {
  if (count <= perPage) return null;
  const last = Math.ceil(count / perPage) - 1;
  return (
    <nav class="pages" aria-label={`Pages of ${what}`}>
      <button type="button" disabled={page === 0} onClick={() => onPage(page - 1)}>Previous</button>
      <span>{(page * perPage + 1).toLocaleString("en-US")}–{Math.min(count, (page + 1) * perPage).toLocaleString("en-US")} of {count.toLocaleString("en-US")} {what}</span>
      <button type="button" disabled={page === last} onClick={() => onPage(page + 1)}>Next</button>
    </nav>
  );
}
