// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Decision } from "./api";

/** Decisions that say the same about one task: the newest of them, and the identities of all. */
export interface Fold {
  decision: Decision;
  ids: number[];
}

/** The outcomes after which something is tried again and again. */
const repeated: ReadonlySet<string> = new Set(["Waits", "Queued", "Moving"]);

/**
 * Folds the attempts in which something found no place into one, as long as nothing else was decided about it in between.
 * The decisions are given and returned with the newest first.
 */
export function folded(decisions: readonly Decision[]): Fold[] {
  const folds: Fold[] = [];
  const open = new Map<string, Fold>();
  for (const decision of decisions) {
    const newer = open.get(decision.subject);
    if (newer && repeated.has(decision.outcome) && newer.decision.outcome === decision.outcome) {
      newer.ids.push(decision.id);
      continue;
    }
    const fold = { decision, ids: [decision.id] };
    folds.push(fold);
    open.set(decision.subject, fold);
  }
  return folds;
}
