// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import type { Plan } from "../api";
import { gpuTime, list, number } from "../format";
import { useCollection } from "../page";
import { PlanBadge } from "../parts/Badge";
import { Empty } from "../parts/Notes";
import { Pages } from "../parts/Pages";
import { Table } from "../parts/Table";
import { Time } from "../parts/Time";
import { isOver, isProposed } from "../plan";
import { links } from "../route";

const perPage = 100;

export function PlansView(): JSX.Element {
  const plans = useCollection("plans");
  const [page, setPage] = useState(0);
  const sorted = useMemo(() => [...plans.rows.values()].sort(openFirst), [plans.changes]);
  const shown = Math.min(page, Math.max(0, Math.ceil(sorted.length / perPage) - 1));
  const open = sorted.filter(isProposed).length;
  return (
    <>
      <h1>Plans</h1>
      <p class="lead">
        A plan moves Pods to make room for a task, or to use fewer nodes.
        {open > 0 && ` ${open === 1 ? "One plan waits" : `${number(open)} plans wait`} for somebody to approve ${open === 1 ? "it" : "them"}.`}
      </p>
      <section class="card" aria-label="Plans">
        {sorted.length === 0 ? <Empty>There are no plans: nothing has to be moved.</Empty> : (
          <Table label="Plans">
            <caption class="visually-hidden">Plans: those that are not finished, then the others, the newest first</caption>
            <thead><tr><th scope="col">Phase</th><th scope="col">Plan</th><th scope="col">Reason</th><th scope="col" class="numeric">Moves</th><th scope="col" class="numeric">Cost</th><th scope="col">Gain</th><th scope="col">Created</th></tr></thead>
            <tbody>{sorted.slice(shown * perPage, (shown + 1) * perPage).map((plan) => <Row key={plan.name} plan={plan} />)}</tbody>
          </Table>
        )}
        <Pages page={shown} perPage={perPage} count={sorted.length} what="plans" onPage={setPage} />
      </section>
    </>
  );
}

function Row({ plan }: { plan: Plan }): JSX.Element {
  return (
    <tr>
      <td class="state"><PlanBadge phase={plan.phase} /></td>
      <th scope="row"><a class="name" href={links.plan(plan.name)}>{plan.name}</a></th>
      <td class="message">{plan.reason}{plan.for && <small>for <a href={links.taskOf(plan.for)}>{plan.for}</a></small>}</td>
      <td class="numeric">{number(list(plan.moves).length)}</td>
      <td class="numeric nowrap">{gpuTime(plan.costGPUSeconds)}</td>
      <td class="message">{plan.realGain || plan.gain}</td>
      <td class="nowrap"><Time at={plan.created} /></td>
    </tr>
  );
}

function openFirst(a: Plan, b: Plan): number {
  return Number(isOver(a)) - Number(isOver(b)) || (a.created < b.created ? 1 : a.created > b.created ? -1 : 0);
}
