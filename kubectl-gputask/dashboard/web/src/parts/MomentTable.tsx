// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { gpus, number } from "../format";
import type { Moment, Series } from "./Chart";
import { Pages } from "./Pages";
import { Table } from "./Table";
import { Time } from "./Time";

const perPage = 50;

/** What curves show, as a table that can be opened. */
export function MomentTable<M extends Moment>({ samples, series, what }: { samples: readonly M[]; series: readonly Series<M>[]; what: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  const [page, setPage] = useState(0);
  const newest = useMemo(() => (open ? [...samples].reverse() : []), [samples, open]);
  const shown = Math.min(page, Math.max(0, Math.ceil(newest.length / perPage) - 1));
  return (
    <details class="as-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{what} as a table</summary>
      {open && (
        <>
          <Table label={`${what} as a table`}>
            <caption class="visually-hidden">GPUs over time, the newest first</caption>
            <thead>
              <tr><th scope="col">Time</th>{series.map((one) => <th key={one.label} scope="col" class="numeric">{one.label}</th>)}</tr>
            </thead>
            <tbody>
              {newest.slice(shown * perPage, (shown + 1) * perPage).map((sample) => (
                <tr key={sample.time}>
                  <th scope="row"><Time at={sample.time} /></th>
                  {series.map((one) => <td key={one.label} class="numeric" title={gpus(one.value(sample))}>{number(one.value(sample))}</td>)}
                </tr>
              ))}
            </tbody>
          </Table>
          <Pages page={shown} perPage={perPage} count={newest.length} what="moments" onPage={setPage} />
        </>
      )}
    </details>
  );
}
