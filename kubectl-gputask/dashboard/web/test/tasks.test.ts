// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Phase, Task } from "../src/api";
import { changeAll, commandFor, isFor, questionFor } from "../src/bulk";
import { filterOf, nextSort, selectTasks } from "../src/tasks";

const now = Date.parse("2026-11-24T12:00:00Z");
const ago = (minutes: number) => new Date(now - minutes * 60_000).toISOString();

function task(name: string, phase: Phase, more: Partial<Task> = {}): Task {
  return { namespace: "default", name, uid: name, version: "1", phase, asks: "1 GPU", podsNow: "", restarts: 0, moves: 0, created: ago(500), ...more };
}

const tasks = [
  task("done-2", "Succeeded", { finished: ago(30) }),
  task("paused", "Suspended"),
  task("broken", "Failed", { finished: ago(20), labels: { team: "vision", owner: "anna" } }),
  task("train-10", "Running", { asks: "2 × 4 GPUs + 1 GPU of t4 + 1 Pod without", created: ago(5) }),
  task("train-9", "Running", { asks: "16 GPUs", created: ago(6) }),
  task("big", "Pending", { namespace: "vision", created: ago(90) }),
  task("old-failure", "Failed", { finished: ago(61) }),
  task("notes", "Waiting", { asks: "3 Pods without GPUs", created: ago(80) }),
];

function names(query: string): string[] {
  return selectTasks(tasks, filterOf(new URLSearchParams(query)), (one) => (one.name === "big" ? "NeverFits" : ""), now).found.map((one) => one.name);
}

test("what waits comes first, then what runs, what failed, what is suspended, and what is done", () => {
  assert.deepEqual(names(""), ["notes", "big", "train-10", "train-9", "broken", "paused", "done-2"]);
});

test("what finished more than an hour ago is hidden and counted, unless somebody asks for it", () => {
  assert.equal(selectTasks(tasks, filterOf(new URLSearchParams()), () => "", now).hidden, 1);
  for (const query of ["finished=all", "find=old", "state=Failed"]) assert.ok(names(query).includes("old-failure"), query);
  assert.equal(selectTasks(tasks, filterOf(new URLSearchParams("finished=all")), () => "", now).hidden, 0);
});

test("filters", () => {
  assert.deepEqual(names("namespace=vision"), ["big"]);
  assert.deepEqual(names("state=Running"), ["train-10", "train-9"]);
  assert.deepEqual(names("state=NeverFits"), ["big"]);
  assert.deepEqual(names("find=owner%3Danna"), ["broken"]);
  assert.deepEqual(names("find=default+train"), ["train-10", "train-9"]);
});

test("columns sort both ways", () => {
  assert.deepEqual(names("sort=name").slice(-2), ["train-9", "train-10"]);
  assert.deepEqual(names("sort=-name").slice(0, 2), ["train-10", "train-9"]);
  assert.deepEqual(names("sort=-asks").slice(0, 2), ["train-9", "train-10"]);
  assert.deepEqual(names("sort=asks")[0], "notes");
  assert.deepEqual(names("sort=-created").slice(0, 2), ["train-10", "train-9"]);
  assert.deepEqual(names("sort=-state")[0], "done-2");
});

test("a column is first sorted from its interesting end, and an unknown one like none", () => {
  const after = (query: string, key: "state" | "name" | "created") => nextSort(filterOf(new URLSearchParams(query)), key);
  assert.equal(after("", "name"), "name");
  assert.equal(after("sort=name", "name"), "-name");
  assert.equal(after("", "created"), "-created");
  assert.equal(after("sort=-created", "created"), "created");
  assert.equal(after("", "state"), "-state");
  assert.equal(after("sort=-state", "state"), "");
  assert.deepEqual(names("sort=-toString"), names(""));
});

test("an action is for the tasks that it can change", () => {
  const suitable = (action: "suspend" | "resume" | "rerun" | "delete") => tasks.filter((one) => isFor(action, one)).length;
  assert.equal(suitable("suspend"), 4);
  assert.equal(suitable("resume"), 1);
  assert.equal(suitable("rerun"), 3);
  assert.equal(suitable("delete"), tasks.length);
});

test("the question says how many, and there is a command for each namespace", () => {
  assert.match(questionFor("delete", 12), /^Delete 12 tasks and their Pods\?/);
  assert.match(questionFor("rerun", 1), /^Create 1 new task with the same spec\?/);
  assert.equal(commandFor("suspend", tasks.slice(3, 6)), "kubectl gputask suspend train-10 train-9 --namespace default\nkubectl gputask suspend big --namespace vision");
});

test("what can't be changed is told by name, and keeps nothing else from being changed", async () => {
  const changed: string[] = [];
  const failed = await changeAll(tasks.slice(0, 3), async (one) => {
    if (one.name === "paused") throw new Error("forbidden");
    changed.push(one.name);
  }, (error) => (error as Error).message, () => false);
  assert.deepEqual(changed, ["done-2", "broken"]);
  assert.deepEqual(failed.map(({ task, reason }) => `${task.name}: ${reason}`), ["paused: forbidden"]);
});

test("what is not yet changed when the question is closed stays as it is", async () => {
  const changed: string[] = [];
  await changeAll(tasks, async (one) => { changed.push(one.name); }, String, () => changed.length === 2);
  assert.equal(changed.length, 2);
});
