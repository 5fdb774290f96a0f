// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { bandOfNode, cellBox, hit, layOut, moveCursor, nodeBox, visible, type Group, type Layout, type Metrics, type Spot } from "../src/map/layout";

const metrics: Metrics = { cell: 10, gap: 2, label: 14, leastWidth: 60, spaceX: 14, spaceY: 9, heading: 28 };

type Named = { name: string };

function group(title: string, counts: readonly number[]): Group<Named> {
  return { title, note: "", nodes: counts.map((gpus, index) => ({ node: { name: `${title}-${index}` }, gpus })) };
}

const eight = (count: number) => Array.from({ length: count }, () => 8);
const groups = [group("a", eight(13)), group("b", [4, 4, 2]), group("empty", []), group("c", [16, 8, 0])];

function everySpot(layout: Layout<Named>, check: (spot: Spot) => void): void {
  layout.nodes.forEach((item, node) => {
    for (let gpu = 0; gpu < item.gpus; gpu++) check({ node, gpu });
  });
}

test("what is hit at the middle of a GPU is that GPU", () => {
  for (const width of [40, 100, 333, 800, 2000]) {
    const layout = layOut(groups, width, metrics);
    everySpot(layout, (spot) => {
      const box = cellBox(layout, bandOfNode(layout, spot.node)!, spot);
      assert.deepEqual(hit(layout, box.x + 5, box.y + 5), spot, `width ${width}`);
    });
  }
});

test("GPUs lie within the map and not on each other", () => {
  for (const width of [100, 333, 2000]) {
    const layout = layOut(groups, width, metrics);
    const corners = new Set<string>();
    everySpot(layout, (spot) => {
      const box = cellBox(layout, bandOfNode(layout, spot.node)!, spot);
      assert.ok(box.x >= 0 && box.x + box.width <= width, `x ${box.x} of ${width}`);
      assert.ok(box.y >= 0 && box.y + box.height <= layout.height);
      corners.add(`${box.x} ${box.y}`);
    });
    assert.equal(corners.size, layout.nodes.reduce((sum, node) => sum + node.gpus, 0));
  }
});

test("headings, names and the space between nodes are no GPUs", () => {
  const layout = layOut(groups, 800, metrics);
  assert.equal(hit(layout, 5, 5), undefined);
  assert.deepEqual(hit(layout, 5, metrics.heading + 3), { node: 0, gpu: -1 });
  const first = nodeBox(layout, layout.bands[0]!, 0);
  assert.equal(hit(layout, first.x + first.width + 5, first.y + 20), undefined);
  assert.equal(hit(layout, -1, first.y + 20), undefined);
  assert.equal(hit(layout, 5, layout.height + 100), undefined);
  assert.equal(hit(layOut([], 800, metrics), 5, 5), undefined);
});

test("all that is in a window is visible, and little else", () => {
  const layout = layOut(groups, 333, metrics);
  for (let top = 0; top < layout.height; top += 7) {
    const bottom = top + 60;
    const seen = visible(layout, top, bottom);
    const shown = new Set(seen.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, index) => from + index)));
    layout.nodes.forEach((_, node) => {
      const box = nodeBox(layout, bandOfNode(layout, node)!, node);
      if (box.y < bottom && box.y + box.height > top) assert.ok(shown.has(node), `node ${node} at ${top}`);
      if (box.y > bottom + 100 || box.y + box.height < top - 100) assert.ok(!shown.has(node), `node ${node} at ${top}`);
    });
  }
});

test("a large cluster takes little time", () => {
  const begun = performance.now();
  const layout = layOut([group("a", eight(10_000))], 1400, metrics);
  assert.equal(layout.nodes.length, 10_000);
  for (let i = 0; i < 1000; i++) visible(layout, i * 20, i * 20 + 700);
  const seen = visible(layout, 20_000, 20_700);
  assert.ok(seen.reduce((sum, { from, to }) => sum + to - from, 0) < 500);
  assert.ok(performance.now() - begun < 500);
});

test("left and right go through all GPUs", () => {
  const layout = layOut(groups, 333, metrics);
  let at: Spot = { node: 0, gpu: 0 };
  const way: Spot[] = [at];
  for (;;) {
    const next = moveCursor(layout, at, "right", 100)!;
    if (next === at) break;
    way.push(at = next);
  }
  // A node without GPUs is passed too: its name can be heard.
  assert.equal(way.length, layout.nodes.reduce((sum, node) => sum + Math.max(1, node.gpus), 0));
  for (const spot of way.reverse().slice(1)) assert.deepEqual(at = moveCursor(layout, at, "left", 100)!, spot);
  assert.equal(moveCursor(layout, at, "left", 100), at);
});

test("up and down keep the column, also across groups", () => {
  const layout = layOut([group("a", eight(5)), group("b", eight(3))], 333, metrics);
  assert.equal(layout.bands[0]!.columns, 3);
  assert.deepEqual(moveCursor(layout, { node: 1, gpu: 6 }, "down", 100), { node: 4, gpu: 6 });
  assert.deepEqual(moveCursor(layout, { node: 2, gpu: 6 }, "down", 100), { node: 4, gpu: 6 });
  assert.deepEqual(moveCursor(layout, { node: 4, gpu: 6 }, "down", 100), { node: 6, gpu: 6 });
  assert.deepEqual(moveCursor(layout, { node: 7, gpu: 6 }, "up", 100), { node: 4, gpu: 6 });
  const bottom = { node: 6, gpu: 1 };
  assert.equal(moveCursor(layout, bottom, "down", 100), bottom);
});

test("up and down stay within the GPUs of a smaller node", () => {
  const layout = layOut([group("a", [8]), group("b", [4])], 333, metrics);
  assert.deepEqual(moveCursor(layout, { node: 0, gpu: 7 }, "down", 100), { node: 1, gpu: 3 });
});

test("pages, ends, and a cursor whose node is gone", () => {
  const layout = layOut([group("a", eight(60))], 333, metrics);
  assert.deepEqual(moveCursor(layout, { node: 59, gpu: 7 }, "home", 100), { node: 0, gpu: 0 });
  assert.deepEqual(moveCursor(layout, { node: 0, gpu: 0 }, "end", 100), { node: 59, gpu: 7 });
  const down = moveCursor(layout, { node: 0, gpu: 2 }, "pagedown", 100)!;
  assert.ok(down.node >= 9 && down.node <= 12, `node ${down.node}`);
  assert.deepEqual(moveCursor(layout, down, "pageup", 100), { node: 0, gpu: 2 });
  assert.deepEqual(moveCursor(layout, { node: 99, gpu: 0 }, "down", 100), { node: 0, gpu: 0 });
  assert.deepEqual(moveCursor(layout, undefined, "down", 100), { node: 0, gpu: 0 });
  assert.equal(moveCursor(layOut([], 333, metrics), undefined, "down", 100), undefined);
});
