// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { messageOf } from "../client";
import { Command } from "./Copy";
import { Failed } from "./Notes";

interface QuestionProps {
  question: string;
  /** The commands that do the same. */
  commands: readonly string[];
  /** What the button says that says yes. */
  verb: string;
  grave: boolean;
  /** Does it; while it fails, the question stays, with the reason. */
  run: () => Promise<void>;
  onClose: () => void;
}

/** Asks before something is changed. */
export function Question({ question, commands, verb, grave, run, onClose }: QuestionProps): JSX.Element {
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
      await run();
      dialog.current?.close();
    } catch (failure) {
      setError(messageOf(failure));
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} class="question" aria-labelledby="question" onClose={onClose}>
      <h2 id="question">{question}</h2>
      <p>{commands.length === 1 ? "This command does the same:" : "These commands do the same:"}</p>
      {commands.map((command) => <Command key={command} text={command} />)}
      <Failed message={error} />
      <div class="dialog-buttons">
        <button type="button" autofocus onClick={() => dialog.current?.close()}>Cancel</button>
        <button type="button" class={grave ? "grave filled" : "primary"} disabled={busy} onClick={() => void confirm()}>
          {busy ? "Please wait …" : verb}
        </button>
      </div>
    </dialog>
  );
}
