// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

/** What to begin with in What if. */
export interface Template {
  label: string;
  text: string;
}

const container = `  template:
    spec:
      containers:
        - name: gpu-task
          image: nvidia/cuda:12.8.1-base-ubuntu24.04
          command: [nvidia-smi]
`;

function task(name: string, spec: string): string {
  return `apiVersion: falldio.com/v1
kind: GPUTask
metadata:
  name: ${name}
spec:
${spec}${container}`;
}

export const templates: readonly Template[] = [
  { label: "One Pod", text: task("single", "  gpu-amount: 1\n") },
  { label: "Gang", text: task("gang", "  gpu-amount: 8\n  replicas: 2\n") },
  { label: "Several roles", text: task("roles", `  gpu-amount: 1
  roles:
    - name: launcher
      replicas: 1
    - name: worker
      replicas: 2
      gpu-amount: 4
`) },
  { label: "Array", text: task("array", "  gpu-amount: 1\n  completions: 20\n  replicas: 4 # at the same time\n") },
  { label: "Shared GPU", text: task("notebook", "  gpu-amount: \"0.5\"\n") },
];
