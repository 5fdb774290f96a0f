// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Node } from "../src/api";
import { Store } from "../src/store";

const node = (name: string): Node => ({ name, domains: [], gpus: [{ use: "Free" }] });

function newStore(): { store: Store; run: () => void; scheduled: () => number } {
  const tasks: (() => void)[] = [];
  const store = new Store((task) => tasks.push(task));
  return { store, run: () => tasks.splice(0).forEach((task) => task()), scheduled: () => tasks.length };
}

test("rows are set, replaced and removed", () => {
  const { store } = newStore();
  store.apply({ version: 1, reset: true, set: { nodes: { a: node("a"), b: node("b") }, load: { a: [1] } } });
  assert.deepEqual([...store.rows.nodes.keys()], ["a", "b"]);
  store.apply({ version: 2, set: { nodes: { b: { ...node("b"), notice: "cordoned" } } }, remove: { load: ["a", "unknown"] } });
  assert.equal(store.rows.nodes.get("b")?.notice, "cordoned");
  assert.equal(store.rows.load.size, 0);
});

test("a reset drops also what it does not mention", () => {
  const { store } = newStore();
  store.apply({ version: 1, reset: true, set: { nodes: { a: node("a") }, load: { a: [1] } } });
  store.apply({ version: 9, reset: true, set: { nodes: { c: node("c") } } });
  assert.deepEqual([...store.rows.nodes.keys()], ["c"]);
  assert.equal(store.rows.load.size, 0);
});

test("what is removed and set in one update is there", () => {
  const { store } = newStore();
  store.apply({ version: 1, reset: true, set: { nodes: { a: node("a") } } });
  store.apply({ version: 2, set: { nodes: { a: { ...node("a"), pool: "new" } } }, remove: { nodes: ["a"] } });
  assert.equal(store.rows.nodes.get("a")?.pool, "new");
});

test("listeners hear once of many updates, and only of their collections", () => {
  const { store, run, scheduled } = newStore();
  const heard: string[] = [];
  store.subscribe(["nodes"], () => heard.push("nodes"));
  const leave = store.subscribe(["load", "tasks"], () => heard.push("load"));
  store.apply({ version: 1, set: { nodes: { a: node("a") } } });
  store.apply({ version: 2, set: { nodes: { b: node("b") } } });
  assert.equal(scheduled(), 1);
  run();
  assert.deepEqual(heard, ["nodes"]);
  store.apply({ version: 3, set: { load: { a: [3] } } });
  run();
  assert.deepEqual(heard, ["nodes", "load"]);
  leave();
  store.apply({ version: 4, set: { load: { a: [4] } } });
  run();
  assert.deepEqual(heard, ["nodes", "load"]);
});

test("changes of keys are counted apart from changes of rows", () => {
  const { store } = newStore();
  store.apply({ version: 1, set: { nodes: { a: node("a") } } });
  const keys = store.keyChangesOf("nodes");
  const changes = store.changesOf("nodes");
  store.apply({ version: 2, set: { nodes: { a: node("a") } } });
  assert.equal(store.keyChangesOf("nodes"), keys);
  assert.equal(store.changesOf("nodes"), changes + 1);
  store.apply({ version: 3, remove: { nodes: ["a"] } });
  assert.equal(store.keyChangesOf("nodes"), keys + 1);
});

test("collections of a newer server are left out", () => {
  const { store } = newStore();
  store.apply(JSON.parse('{"version":1,"set":{"novelties":{"a":1},"load":{"a":[1]}},"remove":{"more":["b"]}}'));
  assert.deepEqual(store.rows.load.get("a"), [1]);
  assert.equal(store.complete, true);
});
