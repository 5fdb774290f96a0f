// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Action } from "../api";
import { change } from "../client";
import { list } from "../format";
import { announce } from "./Announcements";
import { Question } from "./Question";

export const verbs: Record<Action["name"], string> = {
  suspend: "Suspend", resume: "Resume", delete: "Delete", rerun: "Run again", approve: "Approve", abort: "Abort",
};

export const grave: ReadonlySet<string> = new Set(["delete", "abort"]);

/** Buttons for what can be done with an object; each asks before it does it. path is that of the object. */
export function Actions({ actions, path, uid, onDone }: { actions: readonly Action[]; path: string; uid: string; onDone: () => void }): JSX.Element | null {
  const [asked, setAsked] = useState<Action>();
  if (list(actions).length === 0) return null;
  const run = async (action: Action) => {
    const done = await change(`${path}/${action.name}`, uid);
    announce(done.message);
    onDone();
  };
  return (
    <div class="actions">
      {list(actions).map((action) => (
        <button type="button" key={action.name} class={action.name === "approve" ? "primary" : grave.has(action.name) ? "grave" : ""} onClick={() => setAsked(action)}>
          {verbs[action.name] ?? action.name}
        </button>
      ))}
      {asked && (
        <Question
          question={asked.question} commands={[asked.command]} verb={verbs[asked.name] ?? asked.name} grave={grave.has(asked.name)}
          run={() => run(asked)} onClose={() => setAsked(undefined)}
        />
      )}
    </div>
  );
}
