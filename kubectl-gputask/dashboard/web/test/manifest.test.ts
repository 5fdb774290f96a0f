// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { addRole, edit, editRole, fieldAt, read, removeRole } from "../src/manifest";
import { templates } from "../src/templates";

const head = "apiVersion: falldio.com/v1\nkind: GPUTask\n";
const written = `# ours
---
${head}metadata:
  name: train # in March
  labels: {team: vision}
spec:
  gpu: h100-80gb-hbm3
  gpu-amount: "8"
  replicas: 4
  topology: {level: rack, mode: Required}
  template:
    spec:
      containers:
        - name: gpu-task
          command:
            - |
              echo a
              echo b
---
apiVersion: v1
kind: Service
metadata: {name: s}
`;

test("a text is shown in the form", () => {
  const form = read(written)!;
  assert.deepEqual(
    [form.name, form.namespace, form.model, form.gpus, form.pods, form.level, form.mode, form.objects], ["train", "", "h100-80gb-hbm3", "8", "4", "rack", "Required", 2],
  );
  assert.deepEqual(form.roles, []);
});

test("what can't be read is not shown, and stays as it is", () => {
  for (const text of ["", "# nothing\n", "a: [", "kind: Pod\n", "- a\n", `${head}spec: {a: 1, a: 2}\n`, `${head}base: &base {gpu: t4}\nspec: *base\n`, `${head}# ${"x".repeat(300_000)}\n`]) {
    assert.equal(read(text), undefined, text);
    assert.equal(edit(text, { gpus: "2" }), text);
  }
});

test("a value that is no text is not shown, and can be replaced", () => {
  const text = `${head}spec:\n  gpu: [a]\n  topology:\n`;
  assert.equal(read(text)?.model, "");
  assert.deepEqual(read(edit(text, { model: "t4", level: "leaf" })), { ...read(text), model: "t4", level: "leaf" });
});

test("a change of the form leaves all else in the text", () => {
  const text = edit(written, { gpus: "4", pods: "" });
  assert.equal(text, written.replace("gpu-amount: \"8\"", "gpu-amount: 4").replace("  replicas: 4\n", ""));
});

test("amounts are numbers or text as the API wants them", () => {
  const text = edit(`${head}metadata:\n  name: a\n`, { gpus: "0.5", pods: "3", cpu: "500m", memory: "16Gi", name: "12" });
  assert.equal(text, `${head}metadata:\n  name: "12"\nspec:\n  gpu-amount: "0.5"\n  replicas: 3\n  cpu: 500m\n  memory: 16Gi\n`);
});

test("a task without a level has no topology", () => {
  assert.equal(edit(`${head}spec:\n  topology: {level: rack, mode: Required}\n  replicas: 2\n`, { level: "" }), `${head}spec:\n  replicas: 2\n`);
  assert.equal(edit(`${head}spec: {}\n`, { level: "rack" }).includes("level: rack"), true);
});

test("JSON stays JSON", () => {
  const text = "{\"apiVersion\": \"falldio.com/v1\", \"kind\": \"GPUTask\", \"metadata\": {\"name\": \"a\"}, \"spec\": {\"gpu-amount\": 1}}";
  assert.deepEqual(JSON.parse(edit(text, { pods: "2" })), { apiVersion: "falldio.com/v1", kind: "GPUTask", metadata: { name: "a" }, spec: { "gpu-amount": 1, replicas: 2 } });
});

test("roles come and go", () => {
  const one = addRole(`${head}spec:\n  gpu-amount: 4\n  replicas: 3\n`);
  assert.equal(one, `${head}spec:\n  gpu-amount: 4\n  roles:\n    - name: worker\n      replicas: 3\n`);
  const two = editRole(addRole(one), 1, { name: "launcher", gpus: "1" });
  assert.deepEqual(read(two)?.roles, [{ name: "worker", pods: "3", gpus: "" }, { name: "launcher", pods: "1", gpus: "1" }]);
  assert.deepEqual(read(addRole(two))?.roles.map((role) => role.name), ["worker", "launcher", "worker-2"]);
  const last = removeRole(two, 0);
  assert.deepEqual(read(last)?.roles, [{ name: "launcher", pods: "1", gpus: "1" }]);
  assert.equal(removeRole(last, 0), `${head}spec:\n  gpu-amount: 1\n  replicas: 1\n`);
});

test("the server's paths lead to the form's fields", () => {
  assert.equal(fieldAt("spec.gpu-amount"), "gpus");
  assert.equal(fieldAt("metadata.name"), "name");
  assert.equal(fieldAt("spec.topology.level"), "level");
  assert.equal(fieldAt("spec.roles[1].replicas"), "roles[1].pods");
  for (const path of ["spec", "spec.template.spec.containers[0].image", "spec.roles[0].template", ""]) assert.equal(fieldAt(path), undefined, path);
});

test("templates are texts that the form follows", () => {
  for (const { text, label } of templates) {
    assert.notEqual(read(text)?.name, undefined, label);
    assert.equal(edit(text, { name: read(text)!.name }), text, label);
  }
});
