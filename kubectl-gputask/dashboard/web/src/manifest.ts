// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// The form of What if shows what the text of a manifest says, and changes it there: all else in the text stays as it is.

import { isMap, parseAllDocuments, visit, type Document } from "yaml";

/** What the form shows of a task, as text; empty for what the task does not say. */
export interface Fields {
  name: string;
  namespace: string;
  model: string;
  gpus: string;
  pods: string;
  cpu: string;
  memory: string;
  priority: string;
  queue: string;
  level: string;
  mode: string;
  minAvailable: string;
  gpuMemory: string;
  nodePool: string;
}

export interface RoleFields {
  name: string;
  pods: string;
  gpus: string;
}

export interface Form extends Fields {
  roles: RoleFields[];
  /** How many objects the text has: what the server says is wrong with a field may be about another one. */
  objects: number;
}

type Path = readonly (string | number)[];

const paths: Record<keyof Fields, Path> = {
  name: ["metadata", "name"], namespace: ["metadata", "namespace"],
  model: ["spec", "gpu"], gpus: ["spec", "gpu-amount"], pods: ["spec", "replicas"], cpu: ["spec", "cpu"], memory: ["spec", "memory"],
  priority: ["spec", "priority"], queue: ["spec", "queue"], level: ["spec", "topology", "level"], mode: ["spec", "topology", "mode"],
  minAvailable: ["spec", "minAvailable"], gpuMemory: ["spec", "gpuMemory"], nodePool: ["spec", "nodePool"],
};

const rolePaths: Record<keyof RoleFields, string> = { name: "name", pods: "replicas", gpus: "gpu-amount" };

/** Fields whose values may be numbers. */
const amounts: ReadonlySet<string> = new Set(["gpu-amount", "replicas", "cpu", "memory", "minAvailable", "gpuMemory"]);

/** A longer text is not read at each change. */
const longest = 200_000;

/** The first task of a text; nothing if that can't be read, or has none. */
export function read(text: string): Form | undefined {
  const documents = documentsOf(text);
  const task = taskIn(documents);
  if (!task) return undefined;
  const form = { roles: rolesOf(task), objects: documents.filter((document) => document.contents !== null).length } as Form;
  for (const [name, path] of Object.entries(paths)) form[name as keyof Fields] = valueAt(task, path);
  return form;
}

/** The text with other values of some fields; an empty value removes a field. */
export function edit(text: string, changes: Partial<Fields>): string {
  return changed(text, (task) => {
    for (const [name, value] of Object.entries(changes)) {
      const path = paths[name as keyof Fields];
      // A topology without a level is none.
      set(task, name === "level" && value === "" ? path.slice(0, -1) : path, value);
    }
  });
}

export function editRole(text: string, index: number, changes: Partial<RoleFields>): string {
  return changed(text, (task) => {
    for (const [name, value] of Object.entries(changes)) set(task, ["spec", "roles", index, rolePaths[name as keyof RoleFields]], value);
  });
}

/** The text with one more role. The first one has the Pods that the task had without roles. */
export function addRole(text: string): string {
  return changed(text, (task) => {
    const roles = rolesOf(task);
    const taken = new Set(roles.map((role) => role.name));
    let name = "worker";
    for (let number = 2; taken.has(name); number++) name = `worker-${number}`;
    const role = { name, replicas: roles.length > 0 ? 1 : scalar("replicas", valueAt(task, paths.pods) || "1") };
    if (roles.length > 0) task.addIn(["spec", "roles"], task.createNode(role));
    else {
      set(task, paths.pods, "");
      makeParents(task, ["spec", "roles"]);
      task.setIn(["spec", "roles"], task.createNode([role]));
    }
  });
}

/** The text without a role. The last one leaves its Pods to the task. */
export function removeRole(text: string, index: number): string {
  return changed(text, (task) => {
    const roles = rolesOf(task);
    if (roles.length > 1) task.deleteIn(["spec", "roles", index]);
    else {
      task.deleteIn(["spec", "roles"]);
      set(task, paths.pods, roles[0]?.pods ?? "");
      if (roles[0]?.gpus) set(task, paths.gpus, roles[0].gpus);
    }
  });
}

/** The field of the form that a path such as "spec.gpu-amount" is about; "roles[0].gpus" for that of a role. */
export function fieldAt(path: string): string | undefined {
  const role = /^spec\.roles\[(\d+)\]\.([\w-]+)/.exec(path);
  if (role) {
    const name = Object.entries(rolePaths).find(([, key]) => key === role[2])?.[0];
    return name && `roles[${role[1]}].${name}`;
  }
  return Object.entries(paths).find(([, keys]) => keys.join(".") === path)?.[0];
}

function documentsOf(text: string): Document.Parsed[] {
  if (text.length > longest) return [];
  return [...parseAllDocuments(text, { logLevel: "silent" })];
}

function taskIn(documents: readonly Document.Parsed[]): Document.Parsed | undefined {
  if (documents.some((document) => document.errors.length > 0 || hasAliases(document))) return undefined;
  return documents.find((document) => isMap(document.contents) && document.get("kind") === "GPUTask");
}

/** Whether parts are written once for several places: a change of one place would be one of the others, too. */
function hasAliases(document: Document.Parsed): boolean {
  let found = false;
  visit(document, { Alias: () => { found = true; return visit.BREAK; } });
  return found;
}

function changed(text: string, change: (task: Document.Parsed) => void): string {
  const documents = documentsOf(text);
  const task = taskIn(documents);
  if (!task) return text;
  change(task);
  if (isJSON(text)) return JSON.stringify(task.toJS(), null, 2) + "\n";
  return documents.map((document) => document.toString({ lineWidth: 0, flowCollectionPadding: false })).join("");
}

function rolesOf(task: Document.Parsed): RoleFields[] {
  const roles = task.getIn(["spec", "roles"], true) as { items?: unknown[] } | undefined;
  return (roles?.items ?? []).map((_, index) => {
    const of = (name: keyof RoleFields) => valueAt(task, ["spec", "roles", index, rolePaths[name]]);
    return { name: of("name"), pods: of("pods"), gpus: of("gpus") };
  });
}

function valueAt(task: Document.Parsed, path: Path): string {
  const value = task.getIn(path);
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function set(task: Document.Parsed, path: Path, value: string): void {
  if (value === "") {
    if (task.hasIn(path)) task.deleteIn(path);
    return;
  }
  makeParents(task, path);
  task.setIn(path, scalar(String(path[path.length - 1]), value));
}

/** Sees to it that there is a map or a list to put a field into. */
function makeParents(task: Document.Parsed, path: Path): void {
  for (let length = 1; length < path.length; length++) {
    const parent = path.slice(0, length);
    if (typeof task.getIn(parent) !== "object" || task.getIn(parent) === null) task.setIn(parent, task.createNode({}));
  }
}

/** Whole numbers are written as such where the API takes both. Other text that looks like a number gets quotes. */
function scalar(key: string, value: string): string | number {
  return amounts.has(key) && /^\d{1,15}$/.test(value) ? Number(value) : value;
}

function isJSON(text: string): boolean {
  if (!text.trimStart().startsWith("{")) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
