// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Created } from "../api";
import { ask } from "../client";
import { links } from "../route";
import { Question } from "./Question";

/** A button that creates the task of a manifest, and then leads to its page. */
export function CreateTask({ namespace, name, text, disabled }: { namespace: string; name: string; text: string; disabled: boolean }): JSX.Element {
  const [asking, setAsking] = useState(false);
  const create = async () => {
    const created = await ask<Created>("tasks", text);
    location.hash = links.task(created.namespace, created.name);
    return created.message;
  };
  const command = `kubectl create --namespace ${namespace} --filename - <<'EOF'\n${text.trimEnd()}\nEOF`;
  return (
    <>
      <button type="button" class="primary" disabled={disabled} onClick={() => setAsking(true)}>Create this task</button>
      {asking && <Question question={`Create the task ${namespace}/${name}?`} command={command} verb="Create" onConfirm={create} onClose={() => setAsking(false)} />}
    </>
  );
}
