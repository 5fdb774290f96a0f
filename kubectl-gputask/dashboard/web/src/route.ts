// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

export type Route =
  | { view: "cluster"; find: string }
  | { view: "queue" | "tasks" | "plans" | "history" }
  | { view: "task"; namespace: string; name: string }
  | { view: "whatif"; from?: TaskToEdit }
  | { view: "plan"; name: string }
  | { view: "decisions"; filter: DecisionFilter }
  | { view: "decision"; id: number; filter: DecisionFilter }
  | { view: "unknown" };

/** Which decisions are shown: those about a task, "namespace/name", about what has all words in its name, with an outcome. What is empty selects all. */
export interface DecisionFilter {
  task: string;
  find: string;
  outcome: string;
}

export const allDecisions: DecisionFilter = { task: "", find: "", outcome: "" };

/** A task whose manifest is looked at, and what of it is changed first. */
export interface TaskToEdit {
  namespace: string;
  name: string;
  change?: { kind: string; value?: string };
}

export type ViewName = Route["view"];

/** Reads the part of an address behind "#". */
export function parseRoute(hash: string): Route {
  const [path = ""] = hash.replace(/^#/, "").split("?", 1);
  const parts = path.split("/").filter((part) => part !== "").map(decode);
  const parameters = queryOf(hash);
  const [view = "cluster", first, second] = parts;
  switch (`${view}/${parts.length}`) {
    case "cluster/0":
    case "cluster/1":
      return { view: "cluster", find: parameters.get("find") ?? "" };
    case "queue/1":
    case "tasks/1":
    case "plans/1":
    case "history/1":
      return { view: view as "queue" };
    case "whatif/1":
      return whatIfRoute(parameters);
    case "tasks/3":
      return { view: "task", namespace: first ?? "", name: second ?? "" };
    case "plans/2":
      return { view: "plan", name: first ?? "" };
    case "decisions/1":
      return { view: "decisions", filter: decisionFilter(parameters) };
    case "decisions/2":
      return /^\d+$/.test(first ?? "") ? { view: "decision", id: Number(first), filter: decisionFilter(parameters) } : { view: "unknown" };
    default:
      return { view: "unknown" };
  }
}

/** The part of an address behind "?". */
export function queryOf(hash: string): URLSearchParams {
  return new URLSearchParams(hash.split("?", 2)[1] ?? "");
}

/** An address with some of that changed; what is empty is left out. */
export function withQuery(hash: string, changes: Record<string, string>): string {
  const query = queryOf(hash);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return hash.split("?", 1)[0] + (text === "" ? "" : `?${text}`);
}

export const links = {
  cluster: "#/cluster",
  queue: "#/queue",
  tasks: "#/tasks",
  whatIf: "#/whatif",
  plans: "#/plans",
  history: "#/history",
  decisions: "#/decisions",
  find: (text: string) => `#/cluster?find=${encodeURIComponent(text)}`,
  task: (namespace: string, name: string) => `#/tasks/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
  /** For a task that is given as "namespace/name". */
  taskOf: (key: string) => `#/tasks/${key.split("/").map(encodeURIComponent).join("/")}`,
  whatIfFrom: (namespace: string, name: string, change?: TaskToEdit["change"]) =>
    `#/whatif?from=${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`
    + (change ? `&change=${encodeURIComponent(change.kind)}` : "") + (change?.value ? `&value=${encodeURIComponent(change.value)}` : ""),
  plan: (name: string) => `#/plans/${encodeURIComponent(name)}`,
  decision: (id: number, filter = allDecisions) => `#/decisions/${id}${filterQuery(filter)}`,
  decisionsBy: (filter: DecisionFilter) => `#/decisions${filterQuery(filter)}`,
  decisionsAbout: (namespace: string, name: string) => links.decisionsBy({ ...allDecisions, task: `${namespace}/${name}` }),
};

const titles: Record<Exclude<ViewName, "task" | "plan" | "decision">, string> = {
  cluster: "Cluster", queue: "Queue", tasks: "Tasks", whatif: "What if", plans: "Plans", history: "History",
  decisions: "Decisions", unknown: "Not found",
};

export function titleOf(route: Route): string {
  switch (route.view) {
    case "task":
      return `${route.namespace}/${route.name}`;
    case "plan":
      return `Plan ${route.name}`;
    case "decision":
      return `Decision ${route.id}`;
    default:
      return titles[route.view];
  }
}

/** A filter as the end of an address, of the page or of the server. */
export function filterQuery(filter: DecisionFilter): string {
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "")).toString();
  return query === "" ? "" : `?${query}`;
}

function decisionFilter(parameters: URLSearchParams): DecisionFilter {
  return { task: parameters.get("task") ?? "", find: parameters.get("find") ?? "", outcome: parameters.get("outcome") ?? "" };
}

function whatIfRoute(parameters: URLSearchParams): Route {
  const [namespace, name, ...rest] = (parameters.get("from") ?? "").split("/");
  if (!namespace || !name || rest.length > 0) return { view: "whatif" };
  const kind = parameters.get("change");
  const value = parameters.get("value");
  return { view: "whatif", from: { namespace, name, ...(kind ? { change: { kind, ...(value ? { value } : {}) } } : {}) } };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
