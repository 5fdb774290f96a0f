// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0
// A made-up cluster for the mock server. The same number of nodes gives the same cluster.

const minute = 60_000;
const start = Date.now();

export function at(minutesAgo) {
  return new Date(start - minutesAgo * minute).toISOString().replace(/\.\d+Z/, "Z");
}

export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const models = [
  { model: "h100-80gb-hbm3", short: "h100", pool: "training", gpus: 8, part: 0.5 },
  { model: "a100-40gb", short: "a100", pool: "training", gpus: 8, part: 0.3 },
  { model: "rtx4090", short: "rtx4090", pool: "research", gpus: 4, part: 0.2 },
  { model: "h200-141gb", short: "h200", pool: "research", gpus: 4, part: 0.02, divided: 2 },
];
const longName = "pretrain-multilingual-mixture-of-experts-ablation-seed-00042-v2";
const names = ["train", "finetune", "eval", "sweep", "embed", "distil", "render", longName];
const namespaces = ["default", "vision", "speech", "research"];
const priorities = [0, 1, 10, 100];

export function makeNodes(count, next) {
  const nodes = {};
  for (const { model, short, pool, gpus, part, divided = 0 } of models) {
    const many = Math.max(1, Math.round(count * part));
    for (let i = 0; i < many; i++) {
      const name = `${short}-${i}`;
      const leaf = Math.floor(i / 8);
      nodes[name] = { name, model, pool, domains: [`zone-${leaf < many / 16 ? "a" : "b"}`, `${short}-leaf-${leaf}`], gpus: [], holders: [] };
      for (let gpu = 0; gpu < divided; gpu++) nodes[name].gpus.push(dividedGPU(nodes[name], next));
      fill(nodes[name], gpus - divided, next, i);
    }
  }
  return nodes;
}

function fill(node, count, next, index) {
  if (next() < 0.04) node.notice = next() < 0.5 ? "cordoned" : "not ready since 12 min";
  const taken = next() < 0.25 ? 0 : next() < 0.6 ? count : Math.floor(next() * count);
  let holder = -1;
  for (let gpu = 0; gpu < count; gpu++) {
    if (next() < 0.012) {
      node.gpus.push({ use: "Unhealthy", why: "XID 79: the GPU has fallen off the bus" });
    } else if (gpu >= taken) {
      node.gpus.push(node.notice ? { use: "Closed" } : index % 17 === 3 ? { use: "Reserved", why: "for default/big" } : { use: "Free" });
    } else if (next() < 0.12) {
      node.gpus.push(shared(node, next));
    } else {
      if (holder < 0 || next() < 0.3) holder = addHolder(node, next, 100);
      node.gpus.push({ use: "Busy", holders: [holder] });
    }
  }
}

function dividedGPU(node, next) {
  const slices = [3, 2, 1, 1].map((compute) => {
    const busy = next() < 0.5;
    return { profile: `${compute}g.${compute * 18}gb`, compute, use: busy ? "Busy" : "Free", ...(busy ? { holder: addHolder(node, next, 0) + 1 } : {}) };
  });
  const held = slices.filter((slice) => slice.holder !== undefined);
  return { use: "Divided", percent: Math.floor((100 * held.reduce((sum, slice) => sum + slice.compute, 0)) / 7), holders: held.map((slice) => slice.holder - 1), slices };
}

function shared(node, next) {
  const first = 10 + Math.floor(next() * 50);
  const holders = [addHolder(node, next, first)];
  let percent = first;
  if (next() < 0.5) {
    const second = 10 + Math.floor(next() * (80 - first));
    holders.push(addHolder(node, next, second));
    percent += second;
  }
  return { use: "Shared", percent, holders };
}

function addHolder(node, next, percent) {
  const name = `${names[Math.floor(next() * names.length)]}-${Math.floor(next() * 9)}`.slice(0, 63);
  const namespace = namespaces[Math.floor(next() * namespaces.length)];
  const other = next() < 0.08;
  node.holders.push({
    namespace, pod: other ? `notebook-${Math.floor(next() * 99)}` : `${name}-0`, ...(other ? {} : { task: name }),
    priority: priorities[Math.floor(next() * priorities.length)], percent, phase: "Running", since: at(next() * 3000),
  });
  return node.holders.length - 1;
}

export function makeLoad(nodes, next) {
  return Object.fromEntries(Object.values(nodes).map((node) => [node.name, loadOf(node, next)]));
}

export function loadOf(node, next) {
  return node.gpus.map((gpu) => (gpu.use === "Unhealthy" ? -1 : gpu.use === "Free" || gpu.use === "Closed" ? 0 : Math.floor(30 + next() * 70)));
}

export function makeSummary(nodes) {
  const total = emptySum();
  const byModel = new Map();
  for (const node of Object.values(nodes)) {
    const sum = byModel.get(node.model) ?? { model: node.model, pool: node.pool, ...emptySum() };
    byModel.set(node.model, sum);
    for (const one of [total, sum]) add(one, node);
  }
  return {
    server: "https://gpu-cluster.example.com:6443", context: "gpu-lab", user: "anna@example.com", namespace: "default", connected: true,
    levels: ["zone", "leaf"], priorities: ["gpu-high-priority", "gpu-low-priority"], models: [...byModel.values()], total, waitingGPUs: "33.5", waitingTasks: 5,
    runningTasks: 41, strandedGPUs: 6, metered: true, prometheus: true, journal: true,
    problems: ["GPUTask research/broken can't be read: spec.gpu-amount is not a number."],
  };
}

function emptySum() {
  return { nodes: 0, gpus: 0, free: 0, closed: 0, shared: 0, busy: 0, reserved: 0, divided: 0, unhealthy: 0 };
}

function add(sum, node) {
  sum.nodes++;
  for (const { use } of node.gpus) {
    sum.gpus++;
    sum[use.toLowerCase()]++;
  }
}

export function makeTasks(next) {
  const tasks = {};
  const put = (task) => {
    const one = { uid: `uid-${task.namespace}-${task.name}`, version: "1", pods: 1, runningPods: 0, restarts: 0, moves: 0, amount: "1", created: at(60), ...task };
    one.asks ??= `${one.pods > 1 ? `${one.pods} × ` : ""}${one.amount} ${one.amount === "1" ? "GPU" : "GPUs"}`;
    one.podsNow ??= one.finished ? `${one.phase === "Succeeded" ? one.pods : 0} of ${one.pods} done` : `${one.runningPods} of ${one.pods} run`;
    tasks[`${one.namespace}/${one.name}`] = one;
  };
  put({ namespace: "default", name: "big", phase: "Waiting", gpu: "h100-80gb-hbm3", amount: "8", pods: 2, priority: "gpu-high-priority", queue: "team-vision", created: at(12), message: "It fits after 2 moves" });
  put({ namespace: "vision", name: longName, phase: "Waiting", gpu: "a100-40gb", amount: "8", pods: 1, priority: "gpu-medium-priority", queue: "team-vision", created: at(45), labels: { team: "vision", owner: "anna" }, message: "Pod 0 is pending: needs 8 GPUs of a100-40gb; 4 nodes have too few free GPUs, 3 have another GPU model; it would start with 6 more free GPUs on one node, or with 2 GPUs for each Pod" });
  put({ namespace: "speech", name: "asr-large", phase: "Waiting", amount: "4", pods: 2, queue: "team-speech", created: at(190), message: "Its queue is at its limit" });
  put({ namespace: "research", name: "notebook-share", phase: "Waiting", gpu: "rtx4090", amount: "0.5", created: at(3), message: "Waits for its turn" });
  put({ namespace: "research", name: "refused", phase: "Waiting", amount: "1", queue: "team-gone", created: at(500), message: "There is no queue team-gone" });
  put({ namespace: "default", name: "just-failed", phase: "Failed", amount: "2", created: at(30), started: at(29), finished: at(20), message: "Pod just-failed-0 failed: exit code 137 (OOMKilled)" });
  put({ namespace: "default", name: "paused", phase: "Suspended", amount: "4", created: at(3000) });
  for (let i = 0; i < 41; i++) {
    const pods = 1 + Math.floor(next() * 4);
    put({ namespace: namespaces[i % 4], name: `${names[i % 7]}-${i}`, phase: "Running", gpu: models[i % 3].model, amount: String([1, 2, 4, 8][i % 4]), pods, runningPods: pods, queue: i % 2 ? "team-vision" : "team-speech", created: at(100 + i * 30), started: at(90 + i * 30), nodes: [`h100-${i % 9}`], moves: i % 5 === 0 ? 1 : 0 });
  }
  for (let i = 0; i < 90; i++) {
    const failed = i % 6 === 0;
    put({ namespace: namespaces[i % 4], name: `done-${i}`, phase: failed ? "Failed" : "Succeeded", amount: "2", restarts: failed ? 3 : 0, created: at(600 + i * 60), started: at(590 + i * 60), finished: at(400 + i * 55), ...(failed ? { message: "Pod done-" + i + "-0 failed: exit code 137 (OOMKilled)" } : {}) });
  }
  return tasks;
}

export function makeWaiting() {
  const rows = {};
  const put = (row) => { rows[`${row.kind} ${row.namespace}/${row.name}`] = { position: row.turn + 1, pods: 1, priority: 0, refused: false, ...row }; };
  put({ kind: "GPUTask", namespace: "default", name: "big", turn: 0, queue: "team-vision", position: 1, gpus: "16", model: "h100-80gb-hbm3", pods: 2, priority: 100, priorityClass: "gpu-high-priority", since: at(12), reason: "16 GPUs are free, but at most 4 together on one node (h100-0)", help: "it would start on a100-40gb (2 nodes), or with 4 GPUs for each Pod", remedies: [{ kind: "AcceptModels", value: "a100-40gb", message: "on a100-40gb (2 nodes)" }, { kind: "FewerGPUs", value: "4", message: "with 4 GPUs for each Pod" }], estimatedStart: { earliest: at(-5), likely: at(-22), latest: at(-70) } });
  put({ kind: "GPUTask", namespace: "vision", name: longName, turn: 1, queue: "team-vision", position: 2, gpus: "8", model: "a100-40gb", priority: 10, since: at(45), reason: "4 nodes have too few free GPUs, 3 have another GPU model", help: "6 more free GPUs on one node, or 2 GPUs for each Pod", estimatedStart: { likely: at(-180), message: "if finetune-3 ends as its like did before" } });
  put({ kind: "GPUTask", namespace: "speech", name: "asr-large", turn: 2, queue: "team-speech", position: 1, gpus: "8", pods: 2, since: at(190), reason: "Queue team-speech is at its limit of 24 GPUs", help: "a higher limit of the queue, or the end of one of its 5 tasks" });
  put({ kind: "Gang", namespace: "speech", name: "mpi-job", turn: 3, position: 0, gpus: "1", pods: 4, since: at(20), reason: "the Pod mpi-job-3 does not exist yet" });
  put({ kind: "GPUTask", namespace: "research", name: "notebook-share", turn: 4, position: 3, gpus: "0.5", model: "rtx4090", since: at(3), reason: "it is evaluated in the next cycle" });
  put({ kind: "GPUTask", namespace: "research", name: "refused", turn: 5, position: 0, gpus: "1", since: at(500), refused: true, reason: "There is no queue team-gone", help: "the label falldio.com/queue with the name of a queue of the namespace", verdict: { kind: "Blocked", commands: ["kubectl get gpuqueues"] } });
  return rows;
}

export function makeQueues() {
  const put = (name, order, depth, row) => ({ name, order, depth, share: 1, waiting: 0, running: 0, ...row });
  const resource = (gpu, guaranteed, limit, used, borrowed, waiting) => ({ gpu, guaranteed, ...(limit ? { limit } : {}), used, borrowed, waiting });
  return Object.fromEntries([
    put("company", 0, 0, { factor: 1, waiting: 4, running: 41, resources: [resource("h100-80gb-hbm3", "160", "", "148", "0", "16"), resource("a100-40gb", "96", "120", "100", "4", "8")] }),
    put("team-vision", 1, 1, { parent: "company", share: 0.6, factor: 1.31, waiting: 2, running: 20, resources: [resource("h100-80gb-hbm3", "80", "120", "104", "24", "16")] }),
    put("team-vision-experiments-with-a-rather-long-name-for-a-queue", 2, 2, { parent: "team-vision", share: 0.25, factor: 0.2, running: 3, resources: [resource("h100-80gb-hbm3", "16", "32", "8", "0", "0")] }),
    put("team-speech", 3, 1, { parent: "company", share: 0.4, factor: 0.7, waiting: 1, running: 21, resources: [resource("", "24", "24", "24", "0", "8")] }),
    put("team-idle", 4, 0, { share: 0.1, resources: [], problem: "It has no resources" }),
  ].map((queue) => [queue.name, queue]));
}

export function makePlans(nodes) {
  const [a, b, c, d] = Object.keys(nodes);
  const holderOf = (name) => nodes[name].holders.find((holder) => holder.task && holder.percent === 100);
  const move = (from, to, state, cost) => {
    const holder = holderOf(from) ?? { namespace: "default", task: "job-5", pod: "job-5-0" };
    const index = nodes[from].holders.indexOf(holder);
    const gpus = nodes[from].gpus.flatMap((gpu, i) => (gpu.use === "Busy" && gpu.holders.includes(index) ? [i] : []));
    const free = nodes[to].gpus.flatMap((gpu, i) => (gpu.use === "Free" ? [i] : [])).slice(0, gpus.length);
    return { task: `${holder.namespace}/${holder.task}`, pod: `${holder.namespace}/${holder.pod}`, gpus: String(gpus.length), from: { pod: holder.pod, node: from, gpus }, to: { pod: holder.pod, node: to, gpus: free }, state, costGPUSeconds: cost };
  };
  const busy = Object.keys(nodes).filter((name) => holderOf(name));
  const free = Object.keys(nodes).filter((name) => nodes[name].gpus.filter((gpu) => gpu.use === "Free").length >= 4);
  const plan = (name, row) => [name, { name, uid: `uid-${name}`, goal: "PendingTask", reason: "default/big waits for 16 GPUs and fits nowhere", approved: false, aborted: false, costGPUSeconds: 142, lostGPUSeconds: 0, gain: "16 GPUs for default/big", created: at(9), moves: [], ...row }];
  return Object.fromEntries([
    plan("make-room-big-7h9sz", { phase: "Proposed", for: "default/big", message: "waits for approval: kubectl gputask plan approve make-room-big-7h9sz", moves: [move(busy[0], free[0], "", 73), move(busy[1], free[1], "", 69)], places: [{ pod: "big-0", node: busy[0], gpus: [0, 1, 2, 3, 4, 5, 6, 7] }, { pod: "big-1", node: busy[1], gpus: [0, 1, 2, 3, 4, 5, 6, 7] }] }),
    plan("consolidate-x2k4p", { phase: "Executing", goal: "EmptyNodes", reason: "3 nodes are less than half full", approved: true, costGPUSeconds: 9500, gain: "2 empty nodes", created: at(31), moves: [move(busy[2], free[2] ?? d, "Moved", 4500), move(busy[3], free[3] ?? c, "Evicted", 5000)] }),
    plan("make-room-old-abcde", { phase: "Done", approved: true, gain: "8 GPUs for vision/old", realGain: "vision/old has run for 3 h on 8 GPUs", created: at(900), finished: at(880), moves: [move(busy[4], a, "Moved", 200)] }),
    plan("make-room-late-zzzzz", { phase: "Aborted", aborted: true, message: "Aborted by anna@example.com", created: at(2000), finished: at(1990), moves: [move(busy[5], b, "Skipped", 200)] }),
  ]);
}

export function makeSample(time, summary, next) {
  const total = summary.total.gpus;
  const wave = 0.72 + 0.12 * Math.sin(time / 4e6) + 0.03 * next();
  return {
    time: new Date(time).toISOString(), total, allocated: Math.round(total * wave), stranded: Math.round(4 + 3 * Math.sin(time / 2e6) + next() * 2),
    waiting: Math.max(0, Math.round(18 + 16 * Math.sin(time / 3e6) + next() * 4)), unhealthy: summary.total.unhealthy ?? 0,
  };
}
