// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { TaskDetails, WhatIf, WhatIfAnswer } from "../api";
import { ask, get, isAbort, messageOf, taskPath } from "../client";
import { list } from "../format";
import { VerdictBadge } from "../parts/Badge";
import { Lines, Remedies } from "../parts/Facts";
import { Failed, Note } from "../parts/Notes";
import { Result } from "../parts/Result";

const example = `apiVersion: falldio.com/v1
kind: GPUTask
metadata:
  name: example
spec:
  gpu-amount: 8
  replicas: 2
`;

/** What was asked stays when another view is looked at. */
const kept: { text: string; from: string; answer: WhatIf | undefined } = { text: example, from: "", answer: undefined };

export function WhatIfView({ from }: { from: { namespace: string; name: string } | undefined }): JSX.Element {
  const [text, setTextState] = useState(kept.text);
  const [answer, setAnswer] = useState(kept.answer);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const running = useRef<AbortController | undefined>(undefined);
  const results = useRef<HTMLHeadingElement>(null);
  const setText = (next: string) => setTextState(kept.text = next);

  useManifestOf(from, (manifest) => { setText(manifest); setAnswer(kept.answer = undefined); }, setError);
  useEffect(() => () => running.current?.abort(), []);

  const send = async () => {
    running.current?.abort();
    const controller = running.current = new AbortController();
    setBusy(true);
    setError("");
    try {
      setAnswer(kept.answer = await ask<WhatIf>("whatif", text, controller.signal));
      requestAnimationFrame(() => results.current?.focus());
    } catch (failure) {
      if (isAbort(failure)) return;
      setAnswer(kept.answer = undefined);
      setError(messageOf(failure));
    }
    setBusy(false);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void send();
  };
  return (
    <>
      <h1>What if</h1>
      <p class="lead">Ask what would become of a task now, without creating it.</p>
      <div class="whatif">
        <form class="card" aria-label="Manifest" onSubmit={(event) => { event.preventDefault(); void send(); }}>
          <label class="field column">
            <span>{from ? `Manifest of ${from.namespace}/${from.name}` : "Manifest of a GPUTask"}</span>
            <textarea rows={18} spellcheck={false} autocomplete="off" wrap="off" value={text} aria-describedby="whatif-hint" onInput={(event) => setText(event.currentTarget.value)} onKeyDown={onKeyDown} />
          </label>
          <p class="hint" id="whatif-hint">Several tasks may be written one after the other, with a line “---” between them. Ctrl+Enter asks too.</p>
          <div class="form-buttons">
            <button type="submit" class="primary" disabled={busy || text.trim() === ""}>{busy ? "Asking …" : "Ask"}</button>
            {text !== example && <button type="button" onClick={() => setText(example)}>Show the example again</button>}
          </div>
          <Failed message={error} />
        </form>
        <section class="answers" aria-labelledby="answers" aria-busy={busy}>
          <h2 id="answers" tabIndex={-1} ref={results} class={answer ? "" : "visually-hidden"}>{list(answer?.answers).length > 1 ? "Answers" : "Answer"}</h2>
          {answer ? <Answers answer={answer} /> : <p class="empty card">The answer appears here: whether the task would start now, after others have been moved or have ended, or never; why; and what would help.</p>}
        </section>
      </div>
    </>
  );
}

function Answers({ answer }: { answer: WhatIf }): JSX.Element {
  return (
    <>
      {list(answer.notes).map((note) => <Note key={note}>{note}</Note>)}
      {list(answer.answers).map((one) => <Answer key={`${one.namespace}/${one.name}`} answer={one} />)}
    </>
  );
}

function Answer({ answer }: { answer: WhatIfAnswer }): JSX.Element {
  return (
    <article class="card">
      <p class="answer-name"><VerdictBadge verdict={answer.verdict} /><span class="name">{answer.namespace}/{answer.name}</span></p>
      <h3 class="headline">{answer.headline}</h3>
      <Lines lines={answer.lines} />
      <Remedies remedies={answer.remedies} />
      <Result moves={answer.moves} places={answer.places} />
    </article>
  );
}

/** Fetches the manifest of a task, once for each time that it is asked for by the address. */
function useManifestOf(from: { namespace: string; name: string } | undefined, onManifest: (manifest: string) => void, onError: (message: string) => void): void {
  const key = from ? `${from.namespace}/${from.name}` : "";
  useEffect(() => {
    if (!from || kept.from === key) {
      kept.from = key;
      return;
    }
    const controller = new AbortController();
    get<TaskDetails>(taskPath(from.namespace, from.name), controller.signal).then(
      ({ manifest }) => { kept.from = key; onManifest(manifest); },
      (error) => { if (!isAbort(error)) onError(messageOf(error)); },
    );
    return () => controller.abort();
  }, [key]);
}
