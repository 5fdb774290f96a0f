// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Remedy, TaskDetails, WhatIf, WhatIfAnswer } from "../api";
import { Asker, type Answered } from "../asking";
import { ask, get, isAbort, messageOf, Refusal, taskPath } from "../client";
import { list } from "../format";
import { fieldAt, read, type Form } from "../manifest";
import { VerdictBadge } from "../parts/Badge";
import { CreateTask } from "../parts/CreateTask";
import { Lines } from "../parts/Facts";
import { Remedies } from "../parts/Help";
import { Failed, Note } from "../parts/Notes";
import { Result } from "../parts/Result";
import { TaskForm } from "../parts/TaskForm";
import { applied, isApplicable } from "../remedies";
import type { TaskToEdit } from "../route";
import { templates } from "../templates";

/** What was asked stays when another view is looked at. */
const kept = { text: templates[1]!.text, from: "" };

export function WhatIfView({ from }: { from: TaskToEdit | undefined }): JSX.Element {
  const [text, setTextState] = useState(kept.text);
  const [trouble, setTrouble] = useState("");
  const setText = (next: string) => setTextState(kept.text = next);
  const { answered, again } = useAnswer(text);
  const form = useMemo(() => read(text), [text]);
  const shown = useRef(form);
  if (form) shown.current = form;
  useManifestOf(from, setText, setTrouble);
  return (
    <>
      <h1>What if</h1>
      <p class="lead">See what would happen to a task now. Nothing is created until you choose to.</p>
      <Failed message={trouble} />
      <div class="whatif">
        <form class="card whatif-form" aria-label="Task" onSubmit={(event) => event.preventDefault()}>
          <div class="templates" role="group" aria-labelledby="begin-with">
            <span id="begin-with">Begin with</span>
            {templates.map((template) => <button type="button" key={template.label} class="chip" aria-pressed={text === template.text} onClick={() => setText(template.text)}>{template.label}</button>)}
          </div>
          {!form && <p class="hint">The form follows the text again when that has a task and can be read.</p>}
          {shown.current && <fieldset class="plain" disabled={!form}><TaskForm form={shown.current} text={text} onText={setText} problems={problemsOf(answered.error, form)} /></fieldset>}
          <Verdict answered={answered} />
        </form>
        <section class="answers" aria-labelledby="answers" aria-busy={answered.busy}>
          <div class="card-head">
            <h2 id="answers">{list(answered.value?.answers).length > 1 ? "Answers" : "Answer"}</h2>
            <button type="button" class="small" disabled={answered.busy} onClick={again}>{answered.busy ? "Asking …" : "Ask again"}</button>
          </div>
          <Failed message={answered.error === undefined ? "" : messageOf(answered.error)} />
          {answered.value && <Answers answer={answered.value} text={text} form={form} busy={answered.busy} onText={setText} />}
        </section>
        <section class="card whatif-text" aria-label="Manifest">
          <label class="field column">
            <span>{from ? `Manifest, from ${from.namespace}/${from.name}` : "Manifest of a GPUTask"}</span>
            <textarea rows={24} spellcheck={false} autocomplete="off" wrap="off" value={text} aria-describedby="whatif-hint" onInput={(event) => setText(event.currentTarget.value)} />
          </label>
          <p class="hint" id="whatif-hint">YAML or JSON. Several tasks may be written one after the other, with a line “---” between them; the form is about the first.</p>
        </section>
      </div>
    </>
  );
}

/** The answer to a text, which is asked for whenever that changes. */
function useAnswer(text: string): { answered: Answered<WhatIf>; again: () => void } {
  const [answered, setAnswered] = useState<Answered<WhatIf>>({ busy: true });
  const asker = useMemo(() => new Asker<WhatIf>((question, signal) => ask("whatif", question, signal), setAnswered), []);
  useEffect(() => asker.change(text), [text]);
  useEffect(() => () => asker.stop(), []);
  return { answered, again: () => asker.change(text, 0) };
}

/** The answer in one line, which stays in sight on small screens and is read out. */
function Verdict({ answered }: { answered: Answered<WhatIf> }): JSX.Element {
  const [first, ...others] = list(answered.value?.answers);
  return (
    <p class="verdict-line" role="status">
      {answered.error !== undefined && "There is no answer: see what is wrong."}
      {first && others.length === 0 && <><VerdictBadge verdict={first.verdict} /> {first.headline}</>}
    </p>
  );
}

interface AnswersProps {
  answer: WhatIf;
  text: string;
  form: Form | undefined;
  busy: boolean;
  onText: (text: string) => void;
}

function Answers({ answer, text, form, busy, onText }: AnswersProps): JSX.Element {
  const answers = list(answer.answers);
  const isOne = answers.length === 1 && form?.objects === 1;
  return (
    <>
      {list(answer.notes).map((note) => <Note key={note}>{note}</Note>)}
      {answers.map((one) => (
        <article class="card" key={`${one.namespace}/${one.name}`}>
          <p class="answer-name"><VerdictBadge verdict={one.verdict} /><span class="name">{one.namespace}/{one.name}</span></p>
          <h3 class="headline">{one.headline}</h3>
          {isOne && <div class="actions"><CreateTask namespace={one.namespace} name={one.name} text={text} disabled={busy} /></div>}
          <Details answer={one} onApply={isOne ? (remedy) => onText(applied(text, remedy)) : undefined} />
        </article>
      ))}
    </>
  );
}

function Details({ answer, onApply }: { answer: WhatIfAnswer; onApply: ((remedy: Remedy) => void) | undefined }): JSX.Element {
  return (
    <>
      <Lines lines={answer.lines} />
      <Remedies remedies={answer.remedies} act={(remedy) => onApply !== undefined && isApplicable(remedy) && <button type="button" class="small" onClick={() => onApply(remedy)}>Apply<span class="visually-hidden"> {remedy.message}</span></button>} />
      <Result moves={answer.moves} places={answer.places} />
    </>
  );
}

/** What the server says is wrong with fields of the form. */
function problemsOf(error: unknown, form: Form | undefined): ReadonlyMap<string, string> {
  const problems = new Map<string, string>();
  if (!(error instanceof Refusal) || form?.objects !== 1) return problems;
  for (const { path, text } of error.fields) {
    const field = fieldAt(path);
    if (field !== undefined) problems.set(field, text);
  }
  return problems;
}

/** Fetches the manifest of a task, once for each time that it is asked for by the address. */
function useManifestOf(from: TaskToEdit | undefined, onManifest: (manifest: string) => void, onError: (message: string) => void): void {
  const key = from ? JSON.stringify(from) : "";
  useEffect(() => {
    if (!from || kept.from === key) {
      kept.from = key;
      return;
    }
    const controller = new AbortController();
    get<TaskDetails>(taskPath(from.namespace, from.name), controller.signal).then(
      ({ manifest }) => {
        kept.from = key;
        onError("");
        onManifest(from.change ? applied(manifest, from.change) : manifest);
      },
      (error) => { if (!isAbort(error)) onError(messageOf(error)); },
    );
    return () => controller.abort();
  }, [key]);
}
