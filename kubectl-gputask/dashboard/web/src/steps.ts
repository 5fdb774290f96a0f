// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// The values that a slider or a button goes through, in their order. A value that is typed may lie between them.

export function podSteps(most: number): string[] {
  return Array.from({ length: Math.max(1, most) }, (_, index) => String(index + 1));
}

/** Shares of a GPU, then whole ones. */
export function gpuSteps(most: number): string[] {
  return ["0.25", "0.5", "0.75", ...podSteps(most)];
}

/** The index of the last step that is not above a value; 0 if all are. */
export function stepAt(steps: readonly string[], value: string): number {
  return Math.max(0, steps.filter((step) => Number(step) <= Number(value)).length - 1);
}

/** The next step above a value, or below it if by is -1; beyond the last step it goes on by ones. */
export function stepFrom(steps: readonly string[], value: string, by: 1 | -1): string {
  const now = Number(value);
  if (by > 0) return steps.find((step) => Number(step) > now) ?? String(Math.floor(now) + 1);
  const last = Number(steps[steps.length - 1]);
  if (now > last + 1) return String(Math.ceil(now) - 1);
  return steps.filter((step) => Number(step) < now).pop() ?? value;
}
