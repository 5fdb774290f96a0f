// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";

import { useCollection } from "../page";
import { links } from "../route";

/** A text, in which the names of plans that there are lead to them. */
export function PlanLinks({ text }: { text: string }): JSX.Element {
  const plans = useCollection("plans");
  const parts = text.split(/(?<=\bplan )([a-z0-9][a-z0-9.-]*[a-z0-9])/);
  return <>{parts.map((part, index) => (index % 2 === 1 && plans.rows.has(part) ? <a key={index} href={links.plan(part)}>{part}</a> : part))}</>;
}
