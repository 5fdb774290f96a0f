// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { messageOf } from "../client";
import { announce } from "./Announcements";
import { Command } from "./Copy";
import { Failed } from "./Notes";

export interface QuestionProps {
  question: string;
  /** What does the same, for a shell. */
  command: string;
  /** What the button says that does it. */
  verb: string;
  grave?: boolean;
  /** Does it, and returns what is said then. */
  onConfirm: () => Promise<string>;
  onClose: () => void;
}

/** Asks once before something is done, and says why if it can't be done. */
export function Question({ question, command, verb, grave, onConfirm, onClose }: QuestionProps): JSX.Element {
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
      announce(await onConfirm());
      dialog.current?.close();
    } catch (failure) {
      setError(messageOf(failure));
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} class="question" aria-labelledby="question" onClose={onClose}>
      <h2 id="question">{question}</h2>
      <p>This command does the same:</p>
      <Command text={command} />
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
