// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { Asker, type Answered } from "../src/asking";

function scene(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const asked: { question: string; signal: AbortSignal; answer: (value: string) => void; fail: (error: Error) => void }[] = [];
  const said: Answered<string>[] = [];
  const asker = new Asker<string>(
    (question, signal) => new Promise((answer, fail) => { asked.push({ question, signal, answer, fail }); }), (answered) => said.push(answered),
  );
  const questions = () => asked.map(({ question }) => question).join(" ");
  const settle = async () => { for (let i = 0; i < 5; i++) await Promise.resolve(); };
  return { t, asker, asked, said, questions, settle, wait: (time: number) => t.mock.timers.tick(time) };
}

test("what changes quickly is asked once", async (t) => {
  const { asker, asked, said, questions, settle, wait } = scene(t);
  asker.change("a");
  wait(200);
  asker.change("b");
  wait(200);
  assert.equal(questions(), "");
  wait(100);
  assert.equal(questions(), "b");
  asked[0]!.answer("B");
  await settle();
  assert.deepEqual(said.at(-1), { value: "B", busy: false });
});

test("one question is asked at a time, and a stale answer is dropped", async (t) => {
  const { asker, asked, said, questions, settle, wait } = scene(t);
  asker.change("a");
  wait(300);
  asker.change("b");
  wait(300);
  asker.change("c");
  wait(300);
  assert.equal(questions(), "a");
  asked[0]!.answer("A");
  await settle();
  assert.equal(questions(), "a c");
  assert.equal(said.some(({ value }) => value === "A"), false);
  asked[1]!.answer("C");
  await settle();
  assert.deepEqual(said.at(-1), { value: "C", busy: false });
});

test("an answer in the pause after a change is dropped", async (t) => {
  const { asker, asked, said, questions, settle, wait } = scene(t);
  asker.change("a");
  wait(300);
  asker.change("b");
  asked[0]!.answer("A");
  await settle();
  assert.equal(said.some(({ value }) => value === "A"), false);
  assert.equal(questions(), "a");
  wait(300);
  assert.equal(questions(), "a b");
});

test("a question that fails does not keep the next one from being asked", async (t) => {
  const { asker, asked, said, questions, settle, wait } = scene(t);
  asker.change("a");
  wait(300);
  asked[0]!.fail(new Error("line 3"));
  await settle();
  assert.equal((said.at(-1)?.error as Error).message, "line 3");
  asker.change("b");
  wait(300);
  assert.equal(questions(), "a b");
});

test("nothing is said after the end", async (t) => {
  const { asker, asked, said, settle, wait } = scene(t);
  asker.change("a");
  wait(300);
  const before = said.length;
  asker.stop();
  assert.equal(asked[0]!.signal.aborted, true);
  asked[0]!.answer("A");
  await settle();
  assert.equal(said.length, before);
});
