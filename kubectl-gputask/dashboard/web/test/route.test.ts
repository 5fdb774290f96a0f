// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { allDecisions, filterQuery, links, parseRoute, queryOf, titleOf, withQuery } from "../src/route";

test("addresses lead to views", () => {
  for (const hash of ["", "#", "#/", "#/cluster"]) assert.deepEqual(parseRoute(hash), { view: "cluster", find: "" });
  assert.deepEqual(parseRoute("#/queue"), { view: "queue" });
  assert.deepEqual(parseRoute("#/tasks"), { view: "tasks" });
  assert.deepEqual(parseRoute("#/plans"), { view: "plans" });
  assert.deepEqual(parseRoute("#/decisions/12"), { view: "decision", id: 12, filter: allDecisions });
  for (const hash of ["#/x", "#/tasks/a", "#/tasks/a/b/c", "#/decisions/x", "#/queue/a", "#/%zz"]) assert.deepEqual(parseRoute(hash), { view: "unknown" }, hash);
});

test("links lead where they say", () => {
  assert.deepEqual(parseRoute(links.task("a/b", "c?d")), { view: "task", namespace: "a/b", name: "c?d" });
  assert.deepEqual(parseRoute(links.taskOf("default/big")), { view: "task", namespace: "default", name: "big" });
  assert.deepEqual(parseRoute(links.plan("make room")), { view: "plan", name: "make room" });
  assert.deepEqual(parseRoute(links.find("h100 & more")), { view: "cluster", find: "h100 & more" });
  assert.deepEqual(parseRoute(links.whatIfFrom("default", "big")), { view: "whatif", from: { namespace: "default", name: "big" } });
  const smaller = { namespace: "default", name: "big", change: { kind: "FewerGPUs", value: "4" } };
  assert.deepEqual(parseRoute(links.whatIfFrom("default", "big", smaller.change)), { view: "whatif", from: smaller });
  assert.deepEqual(parseRoute(links.whatIfFrom("default", "big", { kind: "DropTopology" })), { view: "whatif", from: { ...smaller, change: { kind: "DropTopology" } } });
  assert.deepEqual(parseRoute("#/whatif?from=incomplete"), { view: "whatif" });
});

test("what a view shows is in its address", () => {
  assert.equal(withQuery("#/tasks", { sort: "-created", find: "" }), "#/tasks?sort=-created");
  assert.equal(withQuery("#/tasks?sort=-created&find=a", { sort: "" }), "#/tasks?find=a");
  assert.equal(queryOf(withQuery("#/tasks", { find: "a & b?" })).get("find"), "a & b?");
  assert.deepEqual(parseRoute("#/tasks?sort=name"), { view: "tasks" });
});

test("the filter of decisions is in the address", () => {
  const filter = { task: "default/big", find: "a & b", outcome: "Waits" };
  assert.deepEqual(parseRoute(links.decisionsBy(filter)), { view: "decisions", filter });
  assert.deepEqual(parseRoute(links.decision(7, filter)), { view: "decision", id: 7, filter });
  assert.deepEqual(parseRoute(links.decisionsAbout("default", "big")), { view: "decisions", filter: { ...allDecisions, task: "default/big" } });
  assert.deepEqual(parseRoute(links.decisions), { view: "decisions", filter: allDecisions });
  assert.equal(filterQuery({ ...allDecisions, outcome: "Waits" }), "?outcome=Waits");
  assert.equal(filterQuery(allDecisions), "");
});

test("titles", () => {
  assert.equal(titleOf(parseRoute(links.task("default", "big"))), "default/big");
  assert.equal(titleOf(parseRoute("#/whatif")), "What if");
  assert.equal(titleOf(parseRoute("#/decisions/3")), "Decision 3");
});
