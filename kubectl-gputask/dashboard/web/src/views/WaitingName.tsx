// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";

import type { Waiting } from "../api";
import { useTaskNames } from "../page";
import { links } from "../route";

/** The name of what waits; only tasks have a page. */
export function WaitingName({ waiting }: { waiting: Waiting }): JSX.Element {
  const name = useTaskNames()(waiting.namespace, waiting.name);
  if (waiting.kind === "GPUTask") return <a class="name" href={links.task(waiting.namespace, waiting.name)}>{name}</a>;
  return <span class="name">{name} <span class="kind">({waiting.kind})</span></span>;
}
