// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { announce } from "./Announcements";
import { Icon } from "./Icon";

/** A button that copies a text. */
export function CopyButton({ text, what }: { text: () => string; what: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 2_000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    if (await copyText(text())) setCopied(true);
    else announce(`Your browser does not let this page copy ${what}: select the text instead.`);
  };
  return (
    <button type="button" class="small" aria-label={copied ? `Copied ${what}` : `Copy ${what}`} onClick={() => void copy()}>
      <Icon name={copied ? "check" : "copy"} />{copied ? "Copied" : "Copy"}
    </button>
  );
}

/** A command with a button that copies it. */
export function Command({ text }: { text: string }): JSX.Element {
  return (
    <p class="command">
      <code>{text}</code>
      <CopyButton text={() => text} what="the command" />
    </p>
  );
}

async function copyText(text: string): Promise<boolean> {
  try {
    // There is no clipboard on pages from plain HTTP, other than from this machine.
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
