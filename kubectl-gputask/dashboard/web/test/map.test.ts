// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Holder, Move, Node } from "../src/api";
import { cellText, freeGPUs } from "../src/map/cells";
import { paletteOf, priorityStep, stepColour, TaskColours } from "../src/map/colours";
import { defaultGrouping, groupings, groupNodes, sortedNames } from "../src/map/groups";
import { nodesAt } from "../src/map/moved";
import { freeSlicesText, hasFreeSlices, slicesText, stripes } from "../src/map/slices";

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

const divided: Node = {
  name: "h100-3", domains: [], holders: [train, notebook],
  gpus: [
    {
      use: "Divided", percent: 71, holders: [0, 1],
      slices: [
        { profile: "3g.40gb", use: "Busy", compute: 3, holder: 1 }, { profile: "2g.20gb", use: "Busy", compute: 2, holder: 2 },
        { profile: "1g.10gb", use: "Free", compute: 1 }, { profile: "1g.10gb", use: "Free", compute: 1 },
      ],
    },
    { use: "Divided" },
  ],
};

test("a divided GPU says who has which of its slices", () => {
  assert.equal(
    cellText(divided, 0, now),
    "h100-3, GPU 0, divided into 4 MIG slices: 3g.40gb, busy: default/train, since 12:03; 2g.20gb, busy: lab/notebook-7, since 12:03; 2 × 1g.10gb, free",
  );
  assert.equal(cellText(divided, 1, now), "h100-3, GPU 1, in MIG mode, without slices");
  assert.equal(freeSlicesText(divided), "2 of 2 × 1g.10gb, 0 of 1 × 2g.20gb, 0 of 1 × 3g.40gb");
  assert.equal(freeSlicesText(nodes.get("h100-9")!), "");
  assert.equal(slicesText({ "1g.10gb": 1, "2g.20gb": 2 }), "1 MIG slice of 1g.10gb and 2 MIG slices of 2g.20gb");
  assert.equal(slicesText(undefined), "");
});

test("the slices of a GPU fill its square from the top, each by its part of the GPU", () => {
  const boxes = (height: number) => stripes(divided.gpus[0]!.slices!, height).map(({ top, height: high }) => [top, high]);
  assert.deepEqual(boxes(14), [[0, 6], [6, 4], [10, 2], [12, 2]]);
  assert.deepEqual(boxes(8), [[0, 3], [3, 3], [6, 1], [7, 1]]);
  assert.deepEqual(stripes([{ profile: "1g.10gb", use: "Free", compute: 1 }], 14).map(({ top, height }) => [top, height]), [[0, 2]]);
});

test("a node with free slices is one with something free", () => {
  const all = new Map(nodes).set("h100-3", divided);
  const titles = groupNodes(sortedNames(all), all, [], "none", { text: "", onlyFree: true }).flatMap((group) => group.nodes.map((item) => item.node.name));
  assert.deepEqual(titles, ["h100-3", "h100-10"]);
  assert.ok(hasFreeSlices(divided) && !hasFreeSlices(nodes.get("h100-10")!));
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
