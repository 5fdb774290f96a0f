// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0
// Serves dist/ with made-up data, for work on the page without a cluster. It is no part of the product.
// PORT, NODES (60), CHANGES (the nodes that change in a second), TOKEN (none), FORBID=1, TROUBLE=1, EMPTY=1 (a cluster without anything).

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname } from "node:path";

import * as answers from "./answers.mjs";
import { loadOf, makeLoad, makeNodes, makePlans, makeQueues, makeSample, makeSummary, makeTasks, makeWaiting, random } from "./cluster.mjs";

const { PORT = "8090", NODES = "60", TOKEN = "", FORBID = "", TROUBLE = "", EMPTY = "" } = process.env;
const changesPerSecond = Number(process.env.CHANGES ?? Math.ceil(Number(NODES) / 30));
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8" };

const next = random(7);
const data = EMPTY ? emptyData() : fullData();
const viewers = new Set();
let version = 1;

function fullData() {
  const nodes = makeNodes(Number(NODES), next);
  const summary = makeSummary(nodes);
  if (TROUBLE) Object.assign(summary, { connected: false, trouble: "The API server can't be reached: connection refused; trying again.", troubleSince: new Date(Date.now() - 90_000).toISOString() });
  return { summary: { "": summary }, nodes, load: makeLoad(nodes, next), tasks: makeTasks(next), waiting: makeWaiting(), queues: makeQueues(), plans: makePlans(nodes), samples: {} };
}

function emptyData() {
  const total = { nodes: 0, gpus: 0, free: 0, busy: 0 };
  const summary = { server: "https://empty.example.com", namespace: "default", connected: true, levels: null, models: null, total, waitingGPUs: "0", waitingTasks: 0, runningTasks: 0, strandedGPUs: 0, metered: false, prometheus: false, journal: false };
  return { summary: { "": summary }, nodes: {}, load: {}, tasks: {}, waiting: {}, queues: {}, plans: {}, samples: {} };
}

function send(viewer, update) {
  viewer.write(`event: update\nid: ${update.version}\ndata: ${JSON.stringify(update)}\n\n`);
}

function changeSomething() {
  const names = Object.keys(data.nodes);
  const set = { load: {}, nodes: {}, samples: {}, summary: {} };
  for (let i = 0; i < changesPerSecond && names.length > 0; i++) {
    const node = data.nodes[names[Math.floor(next() * names.length)]];
    set.load[node.name] = data.load[node.name] = loadOf(node, next);
    const gpu = Math.floor(next() * node.gpus.length);
    if (i % 3 === 0 && (node.gpus[gpu].use === "Free" || node.gpus[gpu].use === "Busy")) {
      const gpus = [...node.gpus];
      gpus[gpu] = gpus[gpu].use === "Free" && node.holders.length > 0 ? { use: "Busy", holders: [0] } : { use: "Free" };
      set.nodes[node.name] = data.nodes[node.name] = { ...node, gpus };
    }
  }
  if (names.length > 0) {
    const { total, models } = makeSummary(data.nodes);
    set.summary[""] = data.summary[""] = { ...data.summary[""], total, models };
  }
  const sample = makeSample(Date.now(), data.summary[""], next);
  set.samples[sample.time] = data.samples[sample.time] = sample;
  version++;
  for (const viewer of viewers) send(viewer, { version, set });
}
setInterval(changeSomething, 1000);
setInterval(() => { for (const viewer of viewers) viewer.write(": still here\n\n"); }, 15_000);

function json(response, status, value) {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(value));
}

async function bodyOf(request) {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}

function live(response) {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  viewers.add(response);
  response.on("close", () => viewers.delete(response));
  send(response, { version, reset: true, set: data });
}

function logs(response, follow) {
  response.writeHead(200, { "Content-Type": "text/plain; charset=utf-8" });
  let step = 0;
  const line = () => `2026-11-24T10:${String(step % 60).padStart(2, "0")}:00Z step ${step} loss=${(4 / (1 + step++ / 40)).toFixed(4)} \u001b[32mok\u001b[0m naïve tokens/s=12345 <b>not bold</b>\n`;
  for (let i = 0; i < 300; i++) response.write(line());
  if (!follow) return response.end();
  const timer = setInterval(() => response.write(line() + line()), 400);
  response.on("close", () => clearInterval(timer));
}

async function change(response, request, kind, name, action) {
  const { uid } = JSON.parse(await bodyOf(request));
  const object = data[kind][name];
  if (name.endsWith("/refused")) return json(response, 403, { error: `gputasks "refused" is forbidden: User "anna@example.com" cannot ${action} it` });
  if (!object || object.uid !== uid) return json(response, 409, { error: `${name} has been replaced in the meantime: look at it again.` });
  const set = { [kind]: { [name]: changed(kind, object, action) } };
  Object.assign(data[kind], set[kind]);
  version++;
  for (const viewer of viewers) send(viewer, { version, set });
  return json(response, 200, { message: `${name}: ${action} is done.` });
}

function create(response, text) {
  const name = /name:\s*(\S+)/.exec(text)?.[1] ?? "example";
  if (data.tasks[`default/${name}`]) return json(response, 409, { error: `gputasks.falldio.com "${name}" already exists` });
  const like = data.tasks["default/big"];
  const set = { tasks: { [`default/${name}`]: { ...like, name, uid: `uid-${name}`, created: new Date().toISOString() } } };
  Object.assign(data.tasks, set.tasks);
  version++;
  for (const viewer of viewers) send(viewer, { version, set });
  return json(response, 200, { message: `The task ${name} was created.`, namespace: "default", name });
}

function changed(kind, object, action) {
  if (kind === "plans") return action === "approve" ? { ...object, approved: true, phase: "Approved" } : { ...object, aborted: true, phase: "Aborted" };
  const phases = { suspend: "Suspended", resume: "Running", rerun: "Waiting", delete: "Failed" };
  return { ...object, phase: phases[action] ?? object.phase, version: String(Number(object.version) + 1) };
}

async function api(request, response, url) {
  const parts = url.pathname.slice("/api/".length).split("/").map(decodeURIComponent);
  const [kind, first, second, third] = parts;
  if (TOKEN && request.headers.authorization !== `Bearer ${TOKEN}`) return json(response, 401, { error: "The token is not valid any more." });
  if (FORBID) return json(response, 403, { error: "anna@example.com may not list nodes: the ClusterRole gputask-viewer would let them." });
  if (kind === "live") return live(response);
  if (kind === "whatif") {
    const { status, answer } = answers.whatIf(await bodyOf(request), data.nodes);
    return json(response, status, answer);
  }
  if (kind === "history" && first) return json(response, 200, answers.split(first, Number(url.searchParams.get("hours"))));
  if (kind === "history") return json(response, 200, answers.history(Number(url.searchParams.get("hours")), data.summary[""], next));
  if (kind === "journal" && EMPTY) return json(response, 200, { selected: 0, outcomes: [], decisions: [] });
  if (kind === "journal") return json(response, 200, first ? { decision: answers.decision(Number(first)), nodes: Object.values(data.nodes) } : answers.journal(Object.fromEntries(url.searchParams)));
  if (kind === "gpus" && data.nodes[first]?.gpus[Number(second)]) return json(response, 200, answers.gpuDetails(data.nodes[first], Number(second)));
  if (kind === "plans" && request.method === "POST") return change(response, request, "plans", first, second);
  const task = data.tasks[`${first}/${second}`];
  if (kind === "tasks" && third === "logs") return logs(response, url.searchParams.get("follow") === "true");
  if (kind === "tasks" && !first) return create(response, await bodyOf(request));
  if (kind === "tasks" && request.method === "POST") return change(response, request, "tasks", `${first}/${second}`, third);
  if (kind === "tasks" && task) return json(response, 200, answers.taskDetails(task, data.nodes));
  return json(response, 404, { error: `There is no ${kind} ${first}/${second}.` });
}

async function file(response, path) {
  const name = path === "/" ? "index.html" : path.slice(1);
  if (!/^[\w.-]+$/.test(name)) return json(response, 404, { error: "not found" });
  try {
    const content = await readFile(new URL(`../dist/${name}`, import.meta.url));
    response.writeHead(200, { "Content-Type": types[extname(name)] ?? "application/octet-stream" });
    response.end(content);
  } catch {
    json(response, 404, { error: "not found" });
  }
}

createServer((request, response) => {
  const url = new URL(request.url, "http://localhost");
  response.setHeader("Content-Security-Policy", policy);
  response.setHeader("X-Content-Type-Options", "nosniff");
  response.setHeader("Cache-Control", "no-store");
  const handled = url.pathname.startsWith("/api/") ? api(request, response, url) : file(response, url.pathname);
  handled.catch((error) => { if (!response.headersSent) json(response, 500, { error: String(error) }); });
}).listen(Number(PORT), "127.0.0.1", () => console.log(`http://127.0.0.1:${PORT}/${TOKEN ? `#token=${TOKEN}` : ""}`));
