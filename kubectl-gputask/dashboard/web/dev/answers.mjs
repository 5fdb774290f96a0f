// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0
// What the mock server answers besides the live data.

import { at, makeSample } from "./cluster.mjs";

export function taskDetails(task, nodes) {
  const waits = task.phase === "Waiting";
  const finished = task.phase === "Succeeded" || task.phase === "Failed";
  const free = Object.values(nodes).filter((node) => node.gpus.length === 8).slice(0, 2);
  return {
    task,
    manifest: manifestOf(task),
    ...(waits ? { explanation: explanationOf(task, free) } : {}),
    members: Array.from({ length: task.pods }, (_, index) => memberOf(task, index)),
    conditions: [
      { type: waits ? "Waiting" : "Started", status: "True", reason: waits ? "NoRoom" : "AllRunning", message: task.message ?? "All Pods run", lastTransitionTime: task.created },
      { type: "QuotaReserved", status: waits ? "False" : "True", lastTransitionTime: task.created },
    ],
    events: [
      { time: at(8), count: 14, type: "Warning", object: `Pod ${task.name}-0`, reason: "FailedScheduling", message: "0/60 nodes are available: 4 have too few free GPUs, 3 have another GPU model." },
      { time: at(11), count: 1, type: "Normal", object: `GPUTask ${task.name}`, reason: "Created", message: `Created ${task.pods} Pods` },
    ],
    actions: actionsOf(task, waits, finished),
  };
}

function actionsOf({ namespace, name, phase }, waits, finished) {
  const action = (verb, question) => ({ name: verb, command: `kubectl gputask ${verb} -n ${namespace} ${name}`, question });
  const deletion = action("delete", `Delete ${namespace}/${name}, so that its Pods and their logs are gone?`);
  if (finished) return [action("rerun", `Delete ${namespace}/${name} and create it again?`), deletion];
  if (phase === "Suspended") return [action("resume", `Let ${namespace}/${name} run again when it is its turn?`), deletion];
  return [action("suspend", `Stop the Pods of ${namespace}/${name} without finishing it${waits ? "" : ", so that work since its last checkpoint is lost"}?`), deletion];
}

function manifestOf(task) {
  return `apiVersion: falldio.com/v1
kind: GPUTask
metadata:
  name: ${task.name}
  namespace: ${task.namespace}
spec:
${task.gpu ? `  gpu: ${task.gpu}\n` : ""}  gpu-amount: "${task.amount}"
  replicas: ${task.pods}
  template:
    spec:
      containers:
        - name: gpu-task
          image: registry.example.com/team/with/a/rather/long/path/trainer:v3.14.159-cuda12.4-cudnn9-devel-ubuntu22.04
          command: [python, train.py, --config, /configs/large.yaml]
`;
}

function explanationOf(task, nodes) {
  return {
    headline: "It is pending for 12m: it fits after 2 moves.",
    lines: [
      { label: "Asks for", text: `${task.pods} Pods, each ${task.amount} GPUs of ${task.gpu ?? "any model"}; all of them together` },
      { label: "Priority", text: "gpu-high-priority (100)" },
      { label: "Position", text: "1 of 5 tasks that wait" },
      { label: "Free", text: "16 of 32 GPUs on 4 nodes, at most 4 together (h100-0)" },
      { label: "Why not now", text: "4 nodes have too few free GPUs, 3 have another GPU model" },
    ],
    commands: ["kubectl get persistentvolumeclaims --namespace default"],
    remedies: [{ kind: "FreeGPUs", value: "8", message: "with 8 more free GPUs" }, ...remedies],
    moves: [{ task: "default/job-5", pod: "default/job-5-0", gpus: "4", from: { pod: "job-5-0", node: nodes[0].name, gpus: [0, 1, 2, 3] }, to: { pod: "job-5-0", node: nodes[1].name, gpus: [4, 5, 6, 7] }, state: "", costGPUSeconds: 73 }],
    places: [{ pod: `${task.name}-0`, node: nodes[0].name, gpus: [0, 1, 2, 3, 4, 5, 6, 7] }],
  };
}

const remedies = [{ kind: "AcceptModels", value: "a100-40gb", message: "on a100-40gb (2 nodes)" }, { kind: "FewerGPUs", value: "4", message: "with 4 GPUs for each Pod" }];

function memberOf(task, index) {
  const name = `${task.name}-${index}`;
  if (task.phase === "Waiting") return { name, phase: "Pending", reason: "Unschedulable", containers: [], spans: [{ state: "Waiting", from: task.created }] };
  const begin = Date.parse(task.started ?? task.created);
  const iso = (offset) => new Date(begin + offset * 1000).toISOString();
  const spans = [
    { state: "Waiting", from: task.created, to: iso(60) },
    { state: "Starting", from: iso(60), to: iso(600 + index * 60), node: "h100-1" },
    { state: "Running", from: iso(600 + index * 60), to: iso(2400), node: "h100-1" },
    { state: "Waiting", from: iso(2400), to: iso(2700), begin: "moved" },
  ];
  const ended = task.phase === "Succeeded" || task.phase === "Failed";
  spans.push({ state: "Running", from: iso(2700), ...(ended ? { to: task.finished } : {}), node: "h100-2" });
  if (ended) spans.push({ state: task.phase, from: task.finished, node: "h100-2", note: task.phase === "Failed" ? "exit code 137 (OOMKilled)" : "" });
  return { name, node: "h100-2", gpus: [0, 1, 2, 3], phase: task.phase, containers: ["gpu-task", "logs"], spans };
}

export function gpuDetails(node, index) {
  const gpu = node.gpus[index];
  return {
    node: node.name, index, uuid: `GPU-8f6a1c9e-3c1b-4d0e-9f0a-${String(index).padStart(12, "0")}`, model: node.model, memory: "80 GiB",
    health: gpu.use === "Unhealthy" ? gpu.why : "healthy", use: gpu.use,
    holders: (gpu.holders ?? []).map((i) => node.holders[i]).map((holder) => ({
      namespace: holder.namespace, pod: holder.pod, ...(holder.task ? { task: holder.task } : {}), since: holder.since, percent: holder.percent,
      purpose: holder.task ? "2 Pods, each 4 GPUs of h100-80gb-hbm3; all of them together" : "StatefulSet notebook",
      moving: holder.task ? "It would lose 2 min 22 s of work since its last checkpoint, 0.16 GPU-hours." : "It can't be moved: no controller of ours would create it again.",
    })),
  };
}

export function whatIf(text, nodes) {
  if (!/kind:\s*GPUTask/.test(text)) return { status: 422, answer: { error: "reading the text: there are no GPUTasks in it" } };
  const amount = /gpu-amount:\s*"?([^"\n]*)/.exec(text)?.[1] ?? "1";
  if (!(Number(amount) > 0)) {
    const line = text.split("\n").findIndex((one) => one.includes("gpu-amount")) + 1;
    const wrong = `Invalid value: "${amount}": must be a whole number of GPUs from "1" to "9999", or a share of one GPU`;
    return { status: 422, answer: { error: `task example: line ${line}: spec.gpu-amount: ${wrong}`, fields: [{ path: "spec.gpu-amount", line, text: wrong }] } };
  }
  const pods = Number(/replicas:\s*(\d+)/.exec(text)?.[1] ?? 1);
  const [first, second] = Object.values(nodes).filter((node) => node.gpus.length === 8);
  const all = [0, 1, 2, 3, 4, 5, 6, 7];
  return {
    status: 200,
    answer: {
      notes: ["The task is asked about as if it were created in namespace default."],
      answers: [{
        namespace: "default", name: /name:\s*(\S+)/.exec(text)?.[1] ?? "example", verdict: "AfterMoves", headline: `It fits after one move: ${pods} Pods, each ${amount} GPUs, together in one leaf`,
        lines: [{ label: "Asks for", text: `${pods} Pods, each ${amount} GPUs of any model; all of them together` }, { label: "Free", text: "37 of 480 GPUs on 60 nodes, at most 8 together (h100-4)" }],
        remedies: [...remedies, { kind: "FreeGPUs", value: "2", message: "with 2 more free GPUs" }],
        places: [{ pod: "example-0", node: first.name, gpus: all }, { pod: "example-1", node: second.name, gpus: all }],
        moves: [{ task: "default/job-5", pod: "default/job-5-0", gpus: "2", from: { pod: "job-5-0", node: first.name, gpus: [0, 1] }, to: { pod: "job-5-0", node: "a100-1", gpus: [6, 7] }, state: "", costGPUSeconds: 73 }],
      }],
    },
  };
}

export function history(hours, summary, next) {
  const samples = [];
  const step = Math.max(15_000, (hours * 3_600_000) / 600);
  for (let time = Date.now() - hours * 3_600_000; time < Date.now() - 2_000; time += step) samples.push(makeSample(time, summary, next));
  return { source: hours > 6 ? "prometheus" : "page", samples };
}

const splitNames = {
  queue: ["team-vision", "team-speech", "", "team-vision-experiments-with-a-rather-long-name-for-a-queue", "ads", "search", "maps", "(others)"],
  model: ["h100-80gb-hbm3", "a100-40gb", "rtx4090", "*"],
  namespace: ["default", "vision", "speech", "research"],
  cluster: [""],
};

/** What was used, by queue, model or namespace. MISSING=1 is a Prometheus without the metrics, FORBID_USAGE=1 a viewer who may not read the books. */
export function split(dimension, hours) {
  const { MISSING = "", FORBID_USAGE = "" } = process.env;
  const names = splitNames[dimension];
  const times = dimension === "cluster" || MISSING ? null : Array.from({ length: 241 }, (_, i) => new Date(Date.now() - (240 - i) * hours * 15_000).toISOString());
  const wave = (name, time) => Math.round(10 * Math.max(0, (80 / (name + 1)) * (1 + 0.3 * Math.sin(Date.parse(time) / (4e5 * hours) + name)) - 3)) / 10;
  return {
    source: hours > 6 || MISSING ? "prometheus" : "page",
    ...(MISSING ? { missing: "gpu_controller_usage_gpu_seconds_total, which gpu-controller exports unless its flag --usage-period is 0" } : {}),
    curves: { times, series: times && names.filter((name) => name !== "*").map((name, i) => ({ name, gpus: times.map((time) => wave(i, time)) })) },
    rows: names.map((name, i) => ({
      name, ...(FORBID_USAGE ? {} : { gpuHours: name === "*" ? 0 : (hours * 71.3) / (i + 1) }), started: Math.floor((9 * hours) / (i + 1)),
      ...(i === 2 || name === "*" ? { started: 0 } : { waits: { medianSeconds: 14 * (i + 1), p95Seconds: 900 * (i + 2) } }), waiting: i % 3 === 0 ? 16.5 : 0,
    })),
    ...(FORBID_USAGE ? { uncounted: 'usage is in ConfigMaps of namespace gpu-controller-usage; who may read them has the Role gpu-usage-view there: configmaps "gpu-usage-23" is forbidden: User "anna" cannot get resource "configmaps"' }
      : { countedSince: new Date(Math.floor((Date.now() - hours * 3.6e6) / 3.6e6) * 3.6e6).toISOString(), countedUntil: at(1) }),
    seenSince: at(2000),
  };
}

const outcomes = ["Placed", "Waits", "Placed", "Preempts", "Invalid"];

export function journal({ task, find, outcome }) {
  const all = Array.from({ length: 130 }, (_, i) => decision(i + 1));
  const found = all.filter((one) => (!task || one.subject === task) && (!find || one.subject.includes(find)) && (!outcome || one.outcome === outcome));
  return { from: found[0]?.time, selected: found.length, outcomes: [...new Set(outcomes)].sort(), decisions: found };
}

export function decision(id) {
  const outcome = outcomes[id % outcomes.length];
  return {
    id, time: at((130 - id) * 3), subject: outcome === "Waits" ? "default/big" : id % 9 === 0 ? `vision/${"pretrain-multilingual-mixture-of-experts-ablation-seed-00042-v2"}` : `default/train-${id}`, asks: "2 Pods, each 4 GPUs of h100-80gb-hbm3", outcome,
    why: outcome === "Placed" ? "Both Pods fit on one leaf, on the nodes that are the fullest already." : "No 4 GPUs are free together on two nodes of one leaf.",
    candidates: outcome === "Placed" ? 7 : 0, nodes: 60,
    ...(outcome === "Placed" ? { places: [{ pod: `train-${id}-0`, node: "h100-0", gpus: [0, 1, 2, 3] }, { pod: `train-${id}-1`, node: "h100-1", gpus: [4, 5, 6, 7] }] } : {}),
    refusals: ["Too few free GPUs: 41 nodes, such as h100-3", "Another GPU model: 12 nodes, such as rtx4090-0"],
    digest: "sha256:4f1c9ab27e", durationMicroseconds: 1840 + id,
  };
}
