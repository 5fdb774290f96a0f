// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Holder, Move, Node } from "../src/api";
import { cellText, freeGPUs } from "../src/map/cells";
import { paletteOf, priorityStep, stepColour, TaskColours } from "../src/map/colours";
import { defaultGrouping, groupings, groupNodes, sortedNames } from "../src/map/groups";
import { nodesAt } from "../src/map/moved";

const now = new Date(2026, 10, 24, 13, 0);
const since = new Date(2026, 10, 24, 12, 3).toISOString();
const train: Holder = { namespace: "default", pod: "train-0", task: "train", priority: 10, percent: 100, phase: "Running", since };
const notebook: Holder = { namespace: "lab", pod: "notebook-7", priority: 0, percent: 40, phase: "Running", since };

const nodes = new Map<string, Node>([
  ["h100-10", { name: "h100-10", model: "h100", pool: "training", domains: ["a", "leaf-1"], gpus: [{ use: "Busy", holders: [0] }, { use: "Free" }], holders: [train] }],
  ["h100-9", { name: "h100-9", model: "h100", pool: "training", domains: ["a", ""], gpus: [{ use: "Shared", percent: 40, holders: [0] }, { use: "Unhealthy", why: "XID 79" }], holders: [notebook] }],
  ["cpu", { name: "cpu", domains: null as unknown as string[], gpus: null as unknown as [], notice: "cordoned" }],
]);

test("what a GPU is said to be", () => {
  assert.equal(cellText(nodes.get("h100-10")!, 0, now), "h100-10, GPU 0, busy: default/train, since 12:03");
  assert.equal(cellText(nodes.get("h100-10")!, 1, now, [50, 0]), "h100-10, GPU 1, free, 0% utilised");
  assert.equal(cellText(nodes.get("h100-9")!, 0, now, [-1, -1]), "h100-9, GPU 0, shared, 40% allocated: lab/notebook-7, since 12:03");
  assert.equal(cellText(nodes.get("h100-9")!, 1, now), "h100-9, GPU 1, unhealthy: XID 79");
  assert.equal(cellText(nodes.get("cpu")!, 0, now), "cpu");
});

test("nodes are sorted as people count", () => {
  assert.deepEqual(sortedNames(nodes), ["cpu", "h100-9", "h100-10"]);
  assert.equal(freeGPUs(nodes.get("cpu")!), 0);
});

test("nodes are grouped by levels, pools, models or not at all", () => {
  const grouped = (grouping: string, text = "", onlyFree = false) =>
    groupNodes(sortedNames(nodes), nodes, ["zone", "leaf"], grouping, { text, onlyFree }).map((group) => `${group.title}: ${group.nodes.map((item) => item.node.name).join(" ")}; ${group.note}`);
  assert.deepEqual(grouped("level:leaf"), ["No leaf: cpu h100-9; 0 of 2 free", "leaf-1: h100-10; 1 of 2 free"]);
  assert.deepEqual(grouped("pool"), ["No pool: cpu; 0 of 0 free", "Pool training: h100-9 h100-10; 1 of 4 free"]);
  assert.deepEqual(grouped("none"), [": cpu h100-9 h100-10; 1 of 4 free"]);
  assert.deepEqual(grouped("none", "H100 default/train"), [": h100-10; 1 of 2 free"]);
  assert.deepEqual(grouped("none", "lab/notebook"), [": h100-9; 0 of 2 free"]);
  assert.deepEqual(grouped("none", "", true), [": h100-10; 1 of 2 free"]);
  assert.deepEqual(grouped("none", "nothing like this"), []);
  assert.deepEqual(grouped("none", " cpu "), [": cpu; 0 of 0 free"]);
});

test("the narrowest level is the first choice", () => {
  assert.equal(defaultGrouping(["zone", "leaf"]), "level:leaf");
  assert.equal(defaultGrouping([]), "model");
  assert.deepEqual(groupings(["zone"]).map((choice) => choice.label), ["Zone", "Pool", "GPU model", "Not grouped"]);
});

function running(...tasks: string[]): Node[] {
  return [{ name: "n", domains: [], gpus: [], holders: tasks.map((task) => ({ namespace: "default", pod: task, task, priority: 0, percent: 100, phase: "Running", since: "" })) }];
}

test("no two tasks have the same colour while there are enough, and each keeps its own", () => {
  const colours = new TaskColours(10);
  const names = Array.from({ length: 10 }, (_, index) => `job-${index}`);
  colours.update(running(...names));
  const before = names.map((name) => colours.of(`default/${name}`));
  assert.equal(new Set(before).size, 10);
  colours.update(running(...names, "one-more"));
  assert.deepEqual(names.map((name) => colours.of(`default/${name}`)), before);
  assert.ok(colours.of("default/one-more") < 10);
  colours.update(running("job-3"));
  assert.equal(colours.of("default/job-3"), before[3]);
});

test("a task has the same colour for all viewers, and many tasks have all colours", () => {
  const names = Array.from({ length: 60 }, (_, index) => `job-${index}`);
  const one = new TaskColours(10).update(running(...names));
  const other = new TaskColours(10).update(running(...names.reverse()));
  assert.deepEqual(names.map((name) => one.of(`default/${name}`)), names.map((name) => other.of(`default/${name}`)));
  assert.equal(new Set(names.map((name) => one.of(`default/${name}`))).size, 10);
});

test("steps of a scale", () => {
  const palette = paletteOf("light");
  assert.equal(stepColour(["a", "b"], 1), "b");
  assert.equal(stepColour(["a", "b"], 0), "a");
  assert.notEqual(priorityStep(palette, [0, 10, 100], 0), priorityStep(palette, [0, 10, 100], 100));
  assert.equal(priorityStep(palette, [0], 7), palette.unknown);
});

const move: Move = {
  task: "default/train", pod: "default/train-0", gpus: "1", state: "", costGPUSeconds: 60,
  from: { pod: "train-0", node: "h100-10", gpus: [0] }, to: { pod: "train-0", node: "h100-9", gpus: [0] },
};

test("after a move the old place is free, and the new one busy", () => {
  const after = nodesAt("after", nodes, [move], [{ pod: "big-0", node: "h100-10", gpus: [0, 1] }], "default/big");
  assert.deepEqual(after.get("h100-10")!.gpus.map((gpu) => gpu.use), ["Busy", "Busy"]);
  assert.equal(after.get("h100-10")!.holders!.at(-1)!.task, "big");
  assert.equal(after.get("h100-9")!.gpus[0]!.use, "Busy");
  assert.equal(after.get("h100-9")!.gpus[1]!.use, "Unhealthy");
  assert.equal(nodes.get("h100-10")!.gpus[1]!.use, "Free", "the rows of the store stay as they are");
});

test("before a move that has been done, its Pod is where it was", () => {
  const done = nodesAt("after", nodes, [move], []);
  const before = nodesAt("before", done, [move], []);
  assert.equal(before.get("h100-10")!.gpus[0]!.use, "Busy");
  assert.equal(before.get("h100-9")!.gpus[0]!.use, "Free");
});

test("nodes that are gone are left out", () => {
  assert.equal(nodesAt("after", new Map(), [move], []).size, 0);
});
