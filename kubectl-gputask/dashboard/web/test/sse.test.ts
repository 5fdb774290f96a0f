// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { EventParser, textOf } from "../src/sse";

const text = "\uFEFF: hello\nevent: update\nid: 7\ndata: first\ndata: second\n\ndata:{\"a\":1}\r\n\r\nevent: nothing\n\ndata: third\r\rdata: cut off";

const expected = [
  { event: "update", data: "first\nsecond", id: "7" },
  { event: "message", data: "{\"a\":1}", id: "7" },
  { event: "message", data: "third", id: "7" },
];

test("events are read wherever the text is cut", () => {
  for (let size = 1; size <= text.length; size++) {
    const parser = new EventParser();
    const events = [];
    for (let start = 0; start < text.length; start += size) events.push(...parser.push(text.slice(start, start + size)));
    assert.deepEqual(events, expected, `in pieces of ${size}`);
  }
});

test("comments are told, and are no events", () => {
  let comments = 0;
  const parser = new EventParser(() => comments++);
  assert.deepEqual(parser.push(":\n\n: still here\n\n"), []);
  assert.equal(comments, 2);
});

test("a long line is not read again with each piece", () => {
  const parser = new EventParser();
  const piece = "x".repeat(64 << 10);
  const begun = performance.now();
  parser.push("data: ");
  for (let i = 0; i < 400; i++) parser.push(piece);
  const [event] = parser.push("\n\n");
  assert.equal(event?.data.length, 400 * piece.length);
  assert.ok(performance.now() - begun < 2_000);
});

test("characters are decoded across chunks", async () => {
  const bytes = new TextEncoder().encode("naïve – 漢字 🙂");
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  let read = "";
  for await (const piece of textOf(stream)) read += piece;
  assert.equal(read, "naïve – 漢字 🙂");
});
