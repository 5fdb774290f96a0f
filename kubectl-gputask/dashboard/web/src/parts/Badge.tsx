// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";

import type { Phase, Plan, WhatIfAnswer } from "../api";
import { Icon, type IconName } from "./Icon";

export type Tone = "good" | "bad" | "attention" | "active" | "quiet";

export function Badge({ icon, tone, children }: { icon: IconName; tone: Tone; children: string }): JSX.Element {
  return <span class={`badge ${tone}`}><Icon name={icon} />{children}</span>;
}

const phases: Record<Phase, { icon: IconName; tone: Tone; text: string }> = {
  "": { icon: "circle", tone: "quiet", text: "New" },
  Waiting: { icon: "clock", tone: "attention", text: "Waiting" },
  Pending: { icon: "clock", tone: "attention", text: "Pending" },
  Running: { icon: "play", tone: "active", text: "Running" },
  Succeeded: { icon: "check", tone: "good", text: "Succeeded" },
  Failed: { icon: "cross", tone: "bad", text: "Failed" },
  Suspended: { icon: "pause", tone: "quiet", text: "Suspended" },
};

export function PhaseBadge({ phase }: { phase: string }): JSX.Element {
  const known = phases[phase as Phase];
  return known ? <Badge icon={known.icon} tone={known.tone}>{known.text}</Badge> : <Badge icon="circle" tone="quiet">{phase}</Badge>;
}

const planPhases: Record<Plan["phase"], { icon: IconName; tone: Tone; text: string }> = {
  "": { icon: "circle", tone: "quiet", text: "New" },
  Proposed: { icon: "clock", tone: "attention", text: "Proposed" },
  Approved: { icon: "check", tone: "active", text: "Approved" },
  Executing: { icon: "moves", tone: "active", text: "Executing" },
  Done: { icon: "check", tone: "good", text: "Done" },
  Aborted: { icon: "forbidden", tone: "quiet", text: "Aborted" },
};

export function PlanBadge({ phase }: { phase: string }): JSX.Element {
  const known = planPhases[phase as Plan["phase"]];
  return known ? <Badge icon={known.icon} tone={known.tone}>{known.text}</Badge> : <Badge icon="circle" tone="quiet">{phase}</Badge>;
}

const verdicts: Record<WhatIfAnswer["verdict"], { icon: IconName; tone: Tone; text: string }> = {
  Now: { icon: "check", tone: "good", text: "Starts now" },
  AfterPreemption: { icon: "warning", tone: "attention", text: "Starts after preemption" },
  AfterMoves: { icon: "moves", tone: "attention", text: "Starts after moves" },
  WhenOthersEnd: { icon: "clock", tone: "attention", text: "Starts when others end" },
  Sometime: { icon: "clock", tone: "attention", text: "Starts sometime" },
  NodesClosed: { icon: "forbidden", tone: "bad", text: "Its nodes are closed" },
  Missing: { icon: "forbidden", tone: "bad", text: "Something is missing" },
  Never: { icon: "cross", tone: "bad", text: "Never starts" },
  QueueRefuses: { icon: "forbidden", tone: "bad", text: "Refused by its queue" },
  QueueLimit: { icon: "warning", tone: "attention", text: "At the limit of its queue" },
  Invalid: { icon: "cross", tone: "bad", text: "Not valid" },
};

export function VerdictBadge({ verdict }: { verdict: string }): JSX.Element {
  const known = verdicts[verdict as WhatIfAnswer["verdict"]];
  return known ? <Badge icon={known.icon} tone={known.tone}>{known.text}</Badge> : <Badge icon="info" tone="quiet">{verdict}</Badge>;
}

const outcomes: Record<string, { icon: IconName; tone: Tone }> = {
  Placed: { icon: "check", tone: "good" },
  Waits: { icon: "clock", tone: "attention" },
  Queued: { icon: "clock", tone: "attention" },
  Moving: { icon: "moves", tone: "attention" },
  Preempts: { icon: "warning", tone: "attention" },
  Invalid: { icon: "forbidden", tone: "bad" },
};

export function OutcomeBadge({ outcome }: { outcome: string }): JSX.Element {
  const known = outcomes[outcome];
  return <Badge icon={known?.icon ?? "info"} tone={known?.tone ?? "quiet"}>{outcome}</Badge>;
}
