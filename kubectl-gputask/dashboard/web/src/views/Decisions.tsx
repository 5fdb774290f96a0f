// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Decision, Journal, JournalStep, Node } from "../api";
import { folded, type Fold } from "../folds";
import { absolute, compareNames, counted, list, microseconds, number } from "../format";
import { Legend } from "../map/Legend";
import { marksOf, nodesOf, PlaceMap } from "../map/PlaceMap";
import { useFetched, useTick } from "../page";
import { OutcomeBadge } from "../parts/Badge";
import { Choice } from "../parts/Choice";
import { Facts } from "../parts/Facts";
import { PlaceList } from "../parts/Moves";
import { Empty, Failed, Loading, Note } from "../parts/Notes";
import { Pages } from "../parts/Pages";
import { Clock, Time } from "../parts/Time";
import { allDecisions, filterQuery, links, type DecisionFilter } from "../route";

const perPage = 100;
const refreshAfter = 10;
/** Of a larger cluster, only the nodes that were chosen are drawn at first. */
const mostNodes = 200;

export function DecisionsView({ id, filter }: { id: number | undefined; filter: DecisionFilter }): JSX.Element {
  const tick = useTick(refreshAfter);
  const journal = useFetched<Journal>(`journal${filterQuery(filter)}`, tick, 0);
  // What was shown stays until what another filter selects is there.
  const last = useRef<Journal | undefined>(undefined);
  last.current = journal.value ?? last.current;
  return (
    <>
      <h1>Decisions</h1>
      <Failed message={journal.error} />
      {last.current ? <Journalled journal={last.current} id={id} filter={filter} /> : journal.error === "" && <Loading what="the journal" />}
    </>
  );
}

function Journalled({ journal, id, filter }: { journal: Journal; id: number | undefined; filter: DecisionFilter }): JSX.Element {
  const decisions = useMemo(() => [...list(journal.decisions)].sort((a, b) => b.id - a.id), [journal]);
  if (journal.missing) return <Note>{journal.missing}</Note>;
  if (list(journal.outcomes).length === 0) return <Empty>No decisions yet.</Empty>;
  return (
    <>
      <p class="lead">What the scheduler has decided, step by step, and what it knew then.{journal.from && <> From <Time at={journal.from} />.</>}</p>
      <FilterForm filter={filter} outcomes={list(journal.outcomes)} listed={decisions.length} selected={journal.selected} />
      {decisions.length > 0 ? <Browser decisions={decisions} id={id} filter={filter} />
        : <p class="empty">No decision matches. <button type="button" onClick={() => select(allDecisions)}>Show all decisions</button></p>}
    </>
  );
}

/** Another filter takes the place of this one in the history of the browser. */
function select(filter: DecisionFilter): void {
  location.replace(links.decisionsBy(filter));
}

const typingPause = 300;

function FilterForm({ filter, outcomes, listed, selected }: { filter: DecisionFilter; outcomes: readonly string[]; listed: number; selected: number }): JSX.Element {
  const [text, setText] = useState(filter.find);
  const typed = useRef(filter.find);
  useEffect(() => {
    if (filter.find !== typed.current) setText(typed.current = filter.find);
  }, [filter.find]);
  useEffect(() => {
    if (text === filter.find) return;
    const timer = setTimeout(() => select({ ...filter, find: typed.current = text }), typingPause);
    return () => clearTimeout(timer);
  }, [text]);
  const known = outcomes.includes(filter.outcome) || filter.outcome === "" ? outcomes : [...outcomes, filter.outcome];
  return (
    <form class="toolbar" role="search" aria-label="Decisions" onSubmit={(event) => event.preventDefault()}>
      <label class="field grow">
        <span>Find</span>
        <input type="search" value={text} placeholder="task or Pod" onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <Choice label="Outcome" value={filter.outcome} onChange={(outcome) => select({ ...filter, outcome })} options={[{ value: "", label: "All" }, ...known.map((name) => ({ value: name, label: name }))]} />
      {filter.task !== "" && (
        <p class="about">About <a class="name" href={links.taskOf(filter.task)}>{filter.task}</a><button type="button" onClick={() => select({ ...filter, task: "" })}>All tasks</button></p>
      )}
      <p class="count" role="status">{selected > listed ? `the last ${number(listed)} of ${counted(selected, "decision")}` : counted(selected, "decision")}</p>
    </form>
  );
}

function Browser({ decisions, id, filter }: { decisions: readonly Decision[]; id: number | undefined; filter: DecisionFilter }): JSX.Element {
  const folds = useMemo(() => folded(decisions), [decisions]);
  const index = id === undefined ? 0 : folds.findIndex((fold) => fold.ids.includes(id));
  const chosen = id ?? decisions[0]!.id;
  const newer = index > 0 ? folds[index - 1]?.decision : undefined;
  const older = index >= 0 ? folds[index + 1]?.decision : undefined;
  const go = (decision: Decision | undefined) => { if (decision) location.hash = links.decision(decision.id, filter); };
  useStepKeys(() => go(older), () => go(newer));
  return (
    <div class="decisions">
      <DecisionList folds={folds} chosen={chosen} index={Math.max(0, index)} filter={filter} />
      <section class="step" aria-labelledby="step">
        <div class="step-buttons">
          <button type="button" disabled={!newer} aria-keyshortcuts="k" onClick={() => go(newer)}>Newer</button>
          <button type="button" disabled={!older} aria-keyshortcuts="j" onClick={() => go(older)}>Older</button>
          <span class="hint">Keys: <kbd>k</kbd> newer, <kbd>j</kbd> older</span>
        </div>
        <Step id={chosen} />
      </section>
    </div>
  );
}

function DecisionList({ folds, chosen, index, filter }: { folds: readonly Fold[]; chosen: number; index: number; filter: DecisionFilter }): JSX.Element {
  const [page, setPage] = useState(Math.floor(index / perPage));
  useEffect(() => setPage(Math.floor(index / perPage)), [index]);
  return (
    <nav class="card decision-list" aria-label="Decisions">
      <ol>
        {folds.slice(page * perPage, (page + 1) * perPage).map(({ decision, ids }) => (
          <li key={decision.id}>
            <a href={links.decision(decision.id, filter)} aria-current={ids.includes(chosen) ? "true" : undefined}>
              <span class="decision-line"><OutcomeBadge outcome={decision.outcome} /><span class="muted">{ids.length > 1 && `${number(ids.length)} times, last at `}<Clock at={decision.time} /></span></span>
              <span class="name">{decision.subject}</span>
            </a>
          </li>
        ))}
      </ol>
      <Pages page={page} perPage={perPage} count={folds.length} what="decisions" onPage={setPage} />
    </nav>
  );
}

function Step({ id }: { id: number }): JSX.Element {
  const step = useFetched<JournalStep>(`journal/${id}`);
  if (!step.value) return <div class="card"><h2 id="step">Decision {id}</h2><Failed message={step.error} />{step.error === "" && <Loading what="the decision" />}</div>;
  const { decision, nodes } = step.value;
  return (
    <article class="card">
      <p class="answer-name"><OutcomeBadge outcome={decision.outcome} /><span class="muted">Decision {id}, <time dateTime={decision.time}>{absolute(new Date(decision.time))}</time></span></p>
      <h2 id="step" class="name">{decision.subject}</h2>
      <p class="lead">{decision.why}</p>
      <Facts
        facts={[
          { label: "Asks for", value: decision.asks },
          { label: "Nodes with room", value: decision.nodes > 0 ? `${number(decision.candidates)} of ${number(decision.nodes)} that were looked at` : "none were looked at: nothing that it needs had become free since the last time" },
          { label: "Took", value: microseconds(decision.durationMicroseconds) },
        ]}
      />
      {list(decision.refusals).length > 0 && (
        <>
          <h3>Why not other nodes</h3>
          <ul class="sentences">{list(decision.refusals).map((refusal) => <li key={refusal}>{refusal}</li>)}</ul>
        </>
      )}
      {list(decision.places).length > 0 && <><h3>Chosen places</h3><PlaceList places={decision.places} /></>}
      <Moment decision={decision} nodes={list(nodes)} />
      <details class="as-table">
        <summary>For a bug report</summary>
        <p>Decision {id}, digest of the cluster before it: <code>{decision.digest}</code></p>
      </details>
    </article>
  );
}

/** The cluster right before a decision. */
function Moment({ decision, nodes }: { decision: Decision; nodes: readonly Node[] }): JSX.Element | null {
  const chosen = useMemo(() => nodesOf([], decision.places), [decision]);
  const [all, setAll] = useState(nodes.length <= mostNodes || chosen.length === 0);
  const byName = useMemo(() => new Map(nodes.map((node) => [node.name, node])), [nodes]);
  const names = useMemo(() => (all ? [...byName.keys()].sort(compareNames) : chosen), [byName, all, chosen]);
  const marks = useMemo(() => marksOf([], decision.places), [decision]);
  if (nodes.length === 0) return null;
  return (
    <>
      <div class="title-line">
        <h3>The cluster right before it</h3>
        {chosen.length > 0 && (
          <label class="check"><input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} />All {counted(nodes.length, "node")}</label>
        )}
      </div>
      <PlaceMap label="The nodes right before the decision, with the chosen GPUs marked." nodes={byName} names={names} marks={marks} />
      <Legend colourBy="task" brief marks={marks.size > 0 ? ["new"] : []} />
    </>
  );
}

function useStepKeys(onOlder: () => void, onNewer: () => void): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.altKey || event.ctrlKey || event.metaKey || isTyping(event.target)) return;
      if (event.key === "j" || event.key === "ArrowRight") onOlder();
      else if (event.key === "k" || event.key === "ArrowLeft") onNewer();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  });
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}
