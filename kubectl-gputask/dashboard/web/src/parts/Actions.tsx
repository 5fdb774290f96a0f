// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Action } from "../api";
import { change } from "../client";
import { list } from "../format";
import { Question } from "./Question";

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
      {asked && <ActionQuestion action={asked} path={path} uid={uid} onClose={() => setAsked(undefined)} onDone={onDone} />}
    </div>
  );
}

interface ActionQuestionProps {
  action: Action;
  path: string;
  uid: string;
  onClose: () => void;
  onDone?: () => void;
}

/** Asks before something is done with the object at a path. */
export function ActionQuestion({ action, path, uid, onClose, onDone }: ActionQuestionProps): JSX.Element {
  const confirm = async () => {
    const done = await change(`${path}/${action.name}`, uid);
    onDone?.();
    return done.message;
  };
  return <Question question={action.question} command={action.command} verb={verbs[action.name] ?? action.name} grave={grave.has(action.name)} onConfirm={confirm} onClose={onClose} />;
}
