// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Remedy } from "./api";
import { edit, read, type Fields, type Form } from "./manifest";

type Change = Pick<Remedy, "kind" | "value">;

/** What remedies change that are a matter of fields, in a task with one kind of Pods. */
const changes: Record<string, (value: string, form: Form) => Partial<Fields>> = {
  DropTopology: () => ({ mode: "Preferred" }),
  AcceptModels: (model) => ({ model }),
  AcceptPools: () => ({ nodePool: "" }),
  ReduceGPUMemory: (gpuMemory) => ({ gpuMemory }),
  ReduceCPU: (cpu) => ({ cpu }),
  ReduceMemory: (memory) => ({ memory }),
  FewerMembers: (pods, form) => (form.minAvailable === "" ? { pods } : { minAvailable: pods }),
  FewerGPUs: (gpus) => ({ gpus }),
};

/** Whether a remedy can be applied by changing fields. */
export function isApplicable(remedy: Change): boolean {
  return Object.hasOwn(changes, remedy.kind);
}

/** The text with a remedy applied; as it was if that takes somebody's thinking. */
export function applied(text: string, remedy: Change): string {
  const form = read(text);
  if (!form || !isApplicable(remedy) || (form.roles.length > 0 && remedy.kind !== "DropTopology")) return text;
  return edit(text, changes[remedy.kind]!(remedy.value ?? "", form));
}
