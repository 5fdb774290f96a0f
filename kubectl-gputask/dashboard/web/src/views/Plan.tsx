// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { Plan } from "../api";
import { gpuTime, list, number } from "../format";
import { Legend } from "../map/Legend";
import { nodesAt } from "../map/moved";
import { marksOf, nodesOf, PlaceMap } from "../map/PlaceMap";
import { useCollection, useRow } from "../page";
import { Actions } from "../parts/Actions";
import { PlanBadge } from "../parts/Badge";
import { Facts } from "../parts/Facts";
import { MoveTable, PlaceList } from "../parts/Moves";
import { Empty } from "../parts/Notes";
import { Time } from "../parts/Time";
import { actionsOf, costText, isOver } from "../plan";
import { links } from "../route";

export function PlanView({ name }: { name: string }): JSX.Element {
  const plan = useRow("plans", name);
  return (
    <>
      <p class="crumbs"><a href={links.plans}>Plans</a></p>
      <div class="title-line">
        <h1>{name}</h1>
        {plan && <PlanBadge phase={plan.phase} />}
      </div>
      {plan ? <Details plan={plan} /> : <Empty>There is no plan with this name. Plans are deleted some time after they are done.</Empty>}
    </>
  );
}

function Details({ plan }: { plan: Plan }): JSX.Element {
  return (
    <>
      <p class="lead">{plan.reason}</p>
      <Actions actions={actionsOf(plan)} path={`plans/${encodeURIComponent(plan.name)}`} uid={plan.uid} onDone={() => {}} />
      <section class="card" aria-label="The plan">
        <Facts
          facts={[
            { label: "Message", value: plan.phase === "Proposed" ? "waits for your approval" : plan.message },
            plan.for !== undefined && { label: "Makes room for", value: <a href={links.taskOf(plan.for)}>{plan.for}</a> },
            { label: "Goal", value: goals[plan.goal] ?? plan.goal },
            { label: "Cost", value: <span title={`${number(plan.costGPUSeconds)} GPU-seconds`}>{costText(plan)}</span> },
            plan.lostGPUSeconds > 0 && { label: "Work that is repeated", value: gpuTime(plan.lostGPUSeconds) },
            { label: "Gain", value: plan.gain },
            { label: "Actual gain", value: plan.realGain },
            { label: "Created", value: <Time at={plan.created} /> },
            plan.finished !== undefined && { label: "Finished", value: <Time at={plan.finished} /> },
          ]}
        />
      </section>
      <BeforeAndAfter plan={plan} />
      <section class="card" aria-labelledby="moves">
        <h2 id="moves">Moves</h2>
        {list(plan.moves).length > 0 ? <MoveTable moves={plan.moves} withState proposed={plan.phase === "Proposed"} /> : <Empty>It moves nothing.</Empty>}
        {list(plan.places).length > 0 && <><h3>Where the Pods of {plan.for ?? "the task"} go</h3><PlaceList places={plan.places} /></>}
      </section>
    </>
  );
}

function BeforeAndAfter({ plan }: { plan: Plan }): JSX.Element | null {
  const nodes = useCollection("nodes");
  const moves = list(plan.moves);
  const places = list(plan.places);
  const names = useMemo(() => nodesOf(moves, places), [plan]);
  const before = useMemo(() => nodesAt("before", nodes.rows, moves, places), [plan, nodes.changes]);
  const after = useMemo(() => nodesAt("after", nodes.rows, moves, places, plan.for), [plan, nodes.changes]);
  const leaving = useMemo(() => marksOf(moves, [], ["from"]), [plan]);
  const coming = useMemo(() => marksOf(moves, places, ["to", "new"]), [plan]);
  if (names.every((name) => !before.has(name))) return null;
  return (
    <section class="card" aria-labelledby="before-after">
      <h2 id="before-after">Before and after</h2>
      <div class="side-by-side">
        <div><h3>Before</h3><PlaceMap label="The nodes before the moves, with the GPUs marked that Pods leave." nodes={before} names={names} marks={leaving} /></div>
        <div><h3>After</h3><PlaceMap label="The nodes after the moves, with the GPUs marked that Pods get." nodes={after} names={names} marks={coming} /></div>
      </div>
      <Legend colourBy="task" brief marks={places.length > 0 ? ["from", "to", "new"] : ["from", "to"]} />
      {isOver(plan) && <p class="hint">Everything else is shown as it is now, and may have been different then.</p>}
    </section>
  );
}

const goals: Record<string, string> = {
  PendingTask: "start a waiting task", Capacity: "give back whole GPUs, nodes and domains", Recreate: "place all tasks again",
};
