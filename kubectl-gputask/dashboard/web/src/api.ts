// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// What the server sends and takes, as ../../rows and, where it is what "-o json" of a command writes, the analysis of the commands declare it. Times are RFC 3339 texts in UTC;
// amounts of GPUs that are texts are written as gpu-amount of a GPUTask ("8", "0.5").

/** The live data, by collection and key. The server sends all of it once, and then what has changed. */
export interface Collections {
  summary: Summary; // the only key is ""
  nodes: Node; // by name
  load: number[]; // by node: the utilisation of each GPU in percent; -1 where it is not known
  tasks: Task; // by "namespace/name"
  waiting: Waiting; // by "kind namespace/name"
  queues: Queue; // by name
  plans: Plan; // by name
  samples: Sample; // by time
}

export type CollectionName = keyof Collections;

/** An event of GET api/live. A reset replaces everything that was sent before. */
export interface Update {
  version: number;
  reset?: boolean;
  set?: { [C in CollectionName]?: Record<string, Collections[C]> };
  remove?: { [C in CollectionName]?: string[] };
}

export interface Summary {
  /** Where the cluster is, the kubeconfig's context if it has one, and whose rights apply. */
  server: string;
  context?: string;
  user?: string;
  namespace: string;
  /** False while the API server can't be reached; then trouble says why and since when. */
  connected: boolean;
  trouble?: string;
  troubleSince?: string;
  /** What the viewer may not see, one sentence for each kind, with the right that is missing. */
  hidden?: string[];
  /** Objects that could not be read. */
  problems?: string[];
  /** The names of the levels of the topology, the widest first; each node has a domain for each. */
  levels: string[];
  /** The names of the PriorityClasses for tasks. */
  priorities?: string[];
  models: ModelSum[];
  total: Sum;
  waitingGPUs: string;
  waitingTasks: number;
  runningTasks: number;
  /** Free GPUs that Pods of a task can't use because what is free together is too small, and what such a Pod asks for. */
  strandedGPUs: number;
  strandedFor?: string;
  /** True if node agents tell how busy the GPUs are. */
  metered: boolean;
  /** True if Prometheus is asked for the history. */
  prometheus: boolean;
  /** True if there is a journal of the scheduler's decisions. */
  journal: boolean;
}

export interface Sum {
  nodes: number;
  gpus: number;
  free: number;
  closed?: number;
  shared?: number;
  busy: number;
  reserved?: number;
  /** GPUs that are divided into MIG slices. */
  divided?: number;
  /** These slices, and those that nobody has. */
  slices?: number;
  freeSlices?: number;
  unhealthy?: number;
}

export interface ModelSum extends Sum {
  model: string;
  pool?: string;
}

export type Use = "Unhealthy" | "Busy" | "Shared" | "Reserved" | "Closed" | "Divided" | "Free";

export interface Node {
  name: string;
  model?: string;
  pool?: string;
  /** The node's domain on each level, the widest first; empty where it has no label. */
  domains: string[];
  /** Why the node takes no Pods: cordoned, not ready …; absent if it does. */
  notice?: string;
  gpus: Cell[];
  /** Who holds GPUs of the node. */
  holders?: Holder[];
}

export interface Cell {
  use: Use;
  /** How much of it is allocated, if it is shared or divided. */
  percent?: number;
  /** Indices into the node's holders. */
  holders?: number[];
  /** Why it is unhealthy, or for whom it is reserved. */
  why?: string;
  /** Its MIG slices, if it is divided. */
  slices?: Slice[];
}

/** A MIG slice of a GPU. */
export interface Slice {
  /** Its size, as "1g.10gb". */
  profile: string;
  use: Use;
  /** How many of the GPU's seven compute slices it has. */
  compute: number;
  /** The number of the node's holder that has it, from 1; absent if nobody has. */
  holder?: number;
}

export interface Holder {
  namespace: string;
  pod: string;
  /** The name of its GPUTask; absent for Pods of other controllers. */
  task?: string;
  priority: number;
  /** In percent of a GPU, of each of its GPUs. */
  percent: number;
  phase: string;
  since: string;
}

export type Phase = "" | "Waiting" | "Pending" | "Running" | "Succeeded" | "Failed" | "Suspended";

export interface Task {
  namespace: string;
  name: string;
  uid: string;
  /** Changes whenever the task or one of its Pods has changed: then its details are worth fetching again. */
  version: string;
  phase: Phase;
  message?: string;
  gpu?: string;
  /** What its Pods ask for: GPUs without their model, or MIG slices of a profile. */
  asks: string;
  profile?: string;
  /** How many Pods run, or are done. */
  podsNow: string;
  restarts: number;
  moves: number;
  priority?: string;
  queue?: string;
  labels?: Record<string, string>;
  created: string;
  started?: string;
  finished?: string;
  nodes?: string[];
}

export interface Waiting {
  kind: "GPUTask" | "Gang" | "Pod";
  namespace: string;
  name: string;
  /** The order in which all that waits is served, from 0. */
  turn: number;
  queue?: string;
  /** Its place in its queue, from 1; absent if it is not known or it is not served. */
  position?: number;
  gpus: string;
  model?: string;
  pods: number;
  priority: number;
  priorityClass?: string;
  since: string;
  /** Why it waits, in one sentence. */
  reason: string;
  /** What would help, in one sentence; absent while it is not known. */
  help?: string;
  /** The same as changes, unless waitingReason has them. */
  remedies?: Remedy[];
  /** True if it is not served: it may not use its queue, or its Pods can't be created. */
  refused?: boolean;
  /** The one answer to why it waits, as everybody shows it. */
  verdict?: Verdict;
  /** True if it would not fit even if nothing else ran. */
  never?: boolean;
  /** What reason, help and never are made of; other schedulers than ours say only a message. */
  waitingReason?: WaitingReason;
  estimatedStart?: Estimate;
}

export interface WaitingReason {
  /** The cause in one word; empty if it is not known. */
  reason: string;
  needs?: string;
  message: string;
  never?: boolean;
  nodes?: { count?: number; cause: string; resource?: string; message: string }[];
  remedies?: Remedy[];
  time: string;
}

/** A change that alone would let something start that waits. */
export interface Remedy {
  /** What has to change: FreeGPUs, AcceptModels, FewerGPUs … */
  kind: string;
  /** What it has to be instead; absent for a demand that is dropped. */
  value?: string;
  resource?: string;
  /** Completes the sentence "it would start …". */
  message: string;
  nodes?: string[];
}

export interface Verdict {
  /** Queued, Starting, Blocked or NeverFits. */
  kind: string;
  /** Commands that show what blocks, or mend it. */
  commands?: string[];
}

export interface Estimate {
  /** True if it was learned from few others. */
  rough?: boolean;
  earliest: string;
  likely: string;
  latest: string;
  /** What it waits for, and whether its place is booked. */
  message?: string;
}

export interface Queue {
  name: string;
  parent?: string;
  /** 0 for a queue without a parent; queues are sent in the order of the tree. */
  depth: number;
  order: number;
  resources: QueueResource[];
  /** The part of what its parent is due that is due to it, 0 to 1. */
  share: number;
  /** How many times its share it has used lately; absent if it is not known. */
  factor?: number;
  waiting: number;
  running: number;
  problem?: string;
}

export interface QueueResource {
  gpu: string;
  guaranteed: string;
  limit?: string;
  used: string;
  borrowed: string;
  waiting: string;
}

export interface Place {
  pod: string;
  node: string;
  /** Indices of the GPUs on the node. */
  gpus?: number[];
  /** How many MIG slices, by profile. */
  slices?: Record<string, number>;
}

export interface Plan {
  name: string;
  uid: string;
  phase: "" | "Proposed" | "Approved" | "Executing" | "Done" | "Aborted";
  goal: string;
  reason: string;
  message?: string;
  /** The task that room is made for, "namespace/name". */
  for?: string;
  approved: boolean;
  aborted: boolean;
  costGPUSeconds: number;
  lostGPUSeconds: number;
  /** What it would cost if it were approved now, in GPU-seconds, about; absent if that is not known, or it is too late. */
  costNow?: number;
  /** What it brings, in a sentence. */
  gain: string;
  realGain?: string;
  moves: Move[];
  /** Where the Pods of the task go that room is made for. */
  places?: Place[];
  created: string;
  finished?: string;
}

export interface Move {
  task: string; // "namespace/name"
  pod: string;
  /** How many GPUs the Pod has. */
  gpus: string;
  from: Place;
  to: Place;
  state: "" | "Waiting" | "Evicted" | "Moved" | "Elsewhere" | "Skipped";
  costGPUSeconds: number;
  reason?: string;
}

/** One moment of the history. All numbers are GPUs. */
export interface Sample {
  time: string;
  total: number;
  allocated: number;
  stranded: number;
  waiting: number;
  unhealthy: number;
}

/** GET api/tasks/{namespace}/{name} */
export interface TaskDetails {
  task: Task;
  /** The manifest as YAML, without what the API server has added. */
  manifest: string;
  explanation?: Explanation;
  members: Member[];
  conditions: Condition[];
  events: Event[];
  /** What can be done, with the equivalent command. */
  actions: Action[];
}

/** Lines such as {label: "Free", text: "3 of 16 GPUs on 2 nodes"}. */
export interface Line {
  label: string;
  text: string;
}

export interface Explanation {
  /** In one sentence. */
  headline: string;
  lines: Line[];
  /** Commands that show what blocks it, or mend it. */
  commands?: string[];
  remedies?: Remedy[];
  moves?: Move[];
  places?: Place[];
  /** Whether its Pods are at these places, and not only would be. */
  placed?: boolean;
}

export interface Member {
  name: string;
  /** The Pod that is there now; its containers have logs. */
  node?: string;
  gpus?: number[];
  slices?: Record<string, number>;
  phase: string;
  reason?: string;
  containers: string[];
  /** Its life, in order; the last one is what it does now. */
  spans: Span[];
}

export interface Span {
  state: "Waiting" | "Starting" | "Running" | "Succeeded" | "Failed" | "Preempted" | "Moved" | "Evicted" | "Gone";
  from: string;
  /** Absent for what still lasts. */
  to?: string;
  /** What ended the one before: "moved", "restarted", "preempted" …; on the first span of a Pod. */
  begin?: string;
  node?: string;
  note?: string;
}

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime: string;
}

export interface Event {
  time: string;
  count: number;
  type: string; // Normal or Warning
  object: string;
  reason: string;
  message: string;
}

export interface Action {
  name: "suspend" | "resume" | "delete" | "rerun" | "approve" | "abort";
  /** The command that does the same. */
  command: string;
  /** What it does, in a sentence that ends with a question mark. */
  question: string;
}

/** The answer of all POST requests that change something. */
export interface Done {
  message: string;
}

/** POST api/tasks takes the YAML of one task and creates it. */
export interface Created extends Done {
  namespace: string;
  name: string;
}

/** The answer of any request that failed. */
export interface Failure {
  error: string;
  /** The fields of a manifest that are wrong. */
  fields?: InvalidField[];
}

export interface InvalidField {
  /** "spec.gpu-amount" */
  path: string;
  line?: number;
  text: string;
}

/** GET api/gpus/{node}/{index} */
export interface GPUDetails {
  node: string;
  index: number;
  uuid?: string;
  model?: string;
  memory?: string;
  health: string;
  use: Use;
  holders: GPUHolder[];
  /** Its MIG slices, if it is divided. */
  slices?: GPUSlice[];
}

export interface GPUSlice extends Pick<Slice, "profile" | "use"> {
  uuid: string;
  memory: string;
  /** The Pod that has it, "namespace/name". */
  pod?: string;
}

export interface GPUHolder {
  namespace: string;
  pod: string;
  task?: string;
  since: string;
  percent: number;
  /** The MIG slices that it has of the GPU, in words; absent if it has a share or all of it. */
  slices?: string;
  /** What it is for: the task's request, or who controls the Pod. */
  purpose: string;
  /** What it would cost to move it, or why it can't be moved, in a sentence. */
  moving: string;
}

/** POST api/whatif takes YAML and answers for each task in it. */
export interface WhatIfAnswer extends Explanation {
  namespace: string;
  name: string;
  verdict:
    | "Now" | "AfterPreemption" | "AfterMoves" | "WhenOthersEnd" | "Sometime" | "NodesClosed" | "Missing" | "Never"
    | "QueueRefuses" | "QueueLimit" | "Invalid";
}

export interface WhatIf {
  answers: WhatIfAnswer[];
  notes?: string[];
}

/** GET api/history?hours=N */
export interface History {
  /** "prometheus", or "page" for what the page's server has seen itself. */
  source: "prometheus" | "page";
  /** Why Prometheus did not answer, if it was asked. */
  trouble?: string;
  samples: Sample[];
}

/** GET api/history/{cluster, queue, model or namespace}?hours=N */
export interface SplitHistory {
  source: "prometheus" | "page";
  /** Why Prometheus did not answer, if it was asked. */
  trouble?: string;
  /** Which metrics Prometheus does not have; then there are no curves. */
  missing?: string;
  /** None of the whole cluster: its samples tell more. */
  curves: Curves;
  /** Those with most GPU-hours first. */
  rows: SplitRow[];
  /** Why there are no GPU-hours, as the end of a sentence; else of which time they are. */
  uncounted?: string;
  countedSince?: string;
  countedUntil?: string;
  /** Since when the page's server sees tasks start; null while it has seen none of the cluster. */
  seenSince: string | null;
}

export interface Curves {
  times: string[];
  /** Those with most GPUs first; a last one, "(others)", may be the sum of the others. */
  series: { name: string; gpus: number[] }[];
}

/** A name is empty for no queue or an unknown model, "*" if any model is waited for, and "(others)" for the sum of all others. */
export interface SplitRow {
  name: string;
  gpuHours?: number;
  started: number;
  /** How long the tasks that have started had waited. */
  waits?: { medianSeconds: number; p95Seconds: number };
  /** GPUs that are waited for now. */
  waiting: number;
}

/** GET api/journal?task=NAMESPACE/NAME&find=WORDS&outcome=OUTCOME */
export interface Journal {
  /** Why there is none, in a sentence; the rest is empty then. */
  missing?: string;
  from?: string;
  /** How many are selected; the last of them are listed. */
  selected: number;
  /** The outcomes of all decisions, selected or not; none if there are no decisions. */
  outcomes: string[];
  decisions: Decision[];
}

export interface Decision {
  id: number;
  time: string;
  /** What was decided about: "namespace/name" of a task or gang, or a Pod. */
  subject: string;
  asks: string;
  /** "Placed", "Waits", "Queued", "Moving", "Ranked", "Preempts" or "Invalid". */
  outcome: string;
  /** Why, in a sentence. */
  why: string;
  /** How many nodes had room, and how many were looked at: none if nothing had become free since the last decision. */
  candidates: number;
  nodes: number;
  places?: Place[];
  /** Which nodes were refused by which filter, in a sentence for each. */
  refusals?: string[];
  /** What identifies the state of the cluster that it was based on. */
  digest: string;
  durationMicroseconds: number;
}

/** GET api/journal/{id}: the cluster as the scheduler saw it right before the decision. */
export interface JournalStep {
  decision: Decision;
  nodes: Node[];
}
