// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";

import type { Move, Place } from "../api";
import { gpuTime, gpuIndices, list, number } from "../format";
import { slicesText } from "../map/slices";
import { links } from "../route";
import { Table } from "./Table";

const states: Record<string, string> = {
  "": "Not begun", Waiting: "Waits for its turn", Evicted: "Stopped, not yet there", Moved: "Moved",
  Elsewhere: "Runs elsewhere", Skipped: "Left out",
};

/** Moves as a table; the state only of those of a plan. */
export function MoveTable({ moves, withState = false, proposed = false }: { moves: readonly Move[] | undefined; withState?: boolean; proposed?: boolean }): JSX.Element | null {
  const all = list(moves);
  if (all.length === 0) return null;
  const cost = all.reduce((sum, move) => sum + move.costGPUSeconds, 0);
  return (
    <Table label="Moves">
      <caption>{all.length === 1 ? "One move" : `${number(all.length)} moves, in this order`}, at a cost of <span title={`${number(cost)} GPU-seconds`}>{gpuTime(cost)}</span></caption>
      <thead>
        <tr>
          <th scope="col" class="numeric">Step</th><th scope="col">Pod</th><th scope="col" class="numeric">GPUs</th>
          <th scope="col">From</th><th scope="col">To</th>{withState && <th scope="col">State</th>}<th scope="col" class="numeric">Cost</th>
        </tr>
      </thead>
      <tbody>
        {all.map((move, index) => (
          <tr key={move.pod + index}>
            <td class="numeric">{index + 1}</td>
            <th scope="row">{move.task ? <a href={links.taskOf(move.task)}>{move.pod}</a> : move.pod}</th>
            <td class="numeric">{move.gpus}</td>
            <td><PlaceText place={move.from} /></td>
            <td><PlaceText place={move.to} /></td>
            {withState && <td>{proposed ? "Waits for approval" : states[move.state] ?? move.state}{move.reason && <small>{move.reason}</small>}</td>}
            <td class="numeric" title={`${number(move.costGPUSeconds)} GPU-seconds`}>{gpuTime(move.costGPUSeconds)}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

export function PlaceText({ place }: { place: Place }): JSX.Element {
  if (!place.node) return <span>–</span>;
  return (
    <>
      <a href={links.find(place.node)}>{place.node}</a>
      {list(place.gpus).length > 0 && <small>{gpuIndices(list(place.gpus))}</small>}
      {place.slices && <small>{slicesText(place.slices)}</small>}
    </>
  );
}

/** Where Pods go, as text. */
export function PlaceList({ places }: { places: readonly Place[] | undefined }): JSX.Element | null {
  const all = list(places);
  if (all.length === 0) return null;
  const most = 20;
  return (
    <ul class="places">
      {all.slice(0, most).map((place) => (
        <li key={place.pod}>
          <span class="name">{place.pod}</span> on <a href={links.find(place.node)}>{place.node}</a>
          {list(place.gpus).length > 0 && `, ${gpuIndices(list(place.gpus))}`}
          {place.slices && `, ${slicesText(place.slices)}`}
        </li>
      ))}
      {all.length > most && <li>and {number(all.length - most)} more</li>}
    </ul>
  );
}
