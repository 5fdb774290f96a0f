// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { ModelSum, Sum } from "./api";

/** How many GPUs are not divided into MIG slices: the others can't be had as a whole. */
export function wholeGPUs(sum: Sum): number {
  return sum.gpus - (sum.divided ?? 0);
}

/** The sums of models, over all pools. */
export function byModel(sums: readonly ModelSum[]): { model: string; sum: Sum }[] {
  const models = new Map<string, Sum>();
  for (const sum of sums) {
    const before = models.get(sum.model);
    models.set(sum.model, before === undefined ? sum : {
      ...before, free: before.free + sum.free, gpus: before.gpus + sum.gpus, divided: (before.divided ?? 0) + (sum.divided ?? 0),
      slices: (before.slices ?? 0) + (sum.slices ?? 0), freeSlices: (before.freeSlices ?? 0) + (sum.freeSlices ?? 0),
    });
  }
  return [...models].map(([model, sum]) => ({ model, sum }));
}
