// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { addRole, edit, read } from "../src/manifest";
import { applied, isApplicable } from "../src/remedies";

const train = `apiVersion: falldio.com/v1
kind: GPUTask
metadata:
  name: train
spec:
  gpu: h100-80gb-hbm3
  gpu-amount: 8
  replicas: 4
  topology: {level: rack, mode: Required}
`;

test("remedies that are a matter of fields are applied", () => {
  const fields = (kind: string, value?: string, text = train) => {
    const form = read(applied(text, { kind, value }))!;
    return Object.fromEntries(Object.entries(form).filter(([name, now]) => JSON.stringify(now) !== JSON.stringify(read(text)![name as "name"])));
  };
  assert.deepEqual(fields("FewerGPUs", "4"), { gpus: "4" });
  assert.deepEqual(fields("FewerMembers", "2"), { pods: "2" });
  assert.deepEqual(fields("FewerMembers", "2", edit(train, { minAvailable: "3" })), { minAvailable: "2" });
  assert.deepEqual(fields("AcceptModels", "a100-40gb"), { model: "a100-40gb" });
  assert.deepEqual(fields("AcceptModels"), { model: "" });
  assert.deepEqual(fields("DropTopology"), { mode: "Preferred" });
  assert.deepEqual(fields("ReduceMemory", "1024Mi"), { memory: "1024Mi" });
  assert.deepEqual(fields("AcceptPools", undefined, edit(train, { nodePool: "tests" })), { nodePool: "" });
});

test("other remedies leave the text as it is", () => {
  assert.equal(isApplicable({ kind: "FreeGPUs" }), false);
  assert.equal(isApplicable({ kind: "toString" }), false);
  assert.equal(applied(train, { kind: "FreeGPUs", value: "2" }), train);
  const roles = addRole(train);
  assert.equal(applied(roles, { kind: "FewerGPUs", value: "2" }), roles);
  assert.equal(read(applied(roles, { kind: "DropTopology" }))?.mode, "Preferred");
});
