// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { Action } from "../api";
import { change, messageOf } from "../client";
import { list } from "../format";
import { announce } from "./Announcements";
import { Command } from "./Copy";
import { Failed } from "./Notes";

const verbs: Record<Action["name"], string> = {
  suspend: "Suspend", resume: "Resume", delete: "Delete", rerun: "Run again", approve: "Approve", abort: "Abort",
};

const grave: ReadonlySet<string> = new Set(["delete", "abort"]);

/** Buttons for what can be done with an object; each asks before it does it. path is that of the object. */
export function Actions({ actions, path, uid, onDone }: { actions: readonly Action[]; path: string; uid: string; onDone: () => void }): JSX.Element | null {
  const [asked, setAsked] = useState<Action>();
  if (list(actions).length === 0) return null;
  return (
    <div class="actions">
      {list(actions).map((action) => (
        <button type="button" key={action.name} class={action.name === "approve" ? "primary" : grave.has(action.name) ? "grave" : ""} onClick={() => setAsked(action)}>
          {verbs[action.name] ?? action.name}
        </button>
      ))}
      {asked && <Question action={asked} path={`${path}/${asked.name}`} uid={uid} onClose={() => setAsked(undefined)} onDone={onDone} />}
    </div>
  );
}

interface QuestionProps {
  action: Action;
  path: string;
  uid: string;
  onClose: () => void;
  onDone: () => void;
}

function Question({ action, path, uid, onClose, onDone }: QuestionProps): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => { if (before instanceof HTMLElement && before.isConnected) before.focus(); };
  }, []);
  const confirm = async () => {
    setBusy(true);
    setError("");
    try {
      const done = await change(path, uid);
      announce(done.message);
      onDone();
      dialog.current?.close();
    } catch (failure) {
      setError(messageOf(failure));
      setBusy(false);
    }
  };
  const verb = verbs[action.name] ?? action.name;
  return (
    <dialog ref={dialog} class="question" aria-labelledby="question" onClose={onClose}>
      <h2 id="question">{action.question}</h2>
      <p>This command does the same:</p>
      <Command text={action.command} />
      <Failed message={error} />
      <div class="dialog-buttons">
        <button type="button" autofocus onClick={() => dialog.current?.close()}>Cancel</button>
        <button type="button" class={grave.has(action.name) ? "grave filled" : "primary"} disabled={busy} onClick={() => void confirm()}>
          {busy ? "Please wait …" : verb}
        </button>
      </div>
    </dialog>
  );
}
