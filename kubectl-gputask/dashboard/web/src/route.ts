// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

export type Route =
  | { view: "cluster"; find: string }
  | { view: "queue" | "tasks" | "plans" | "history" | "decisions" }
  | { view: "task"; namespace: string; name: string }
  | { view: "whatif"; from?: TaskToEdit }
  | { view: "plan"; name: string }
  | { view: "decision"; id: number }
  | { view: "unknown" };

/** A task whose manifest is looked at, and what of it is changed first. */
export interface TaskToEdit {
  namespace: string;
  name: string;
  change?: { kind: string; value?: string };
}

export type ViewName = Route["view"];

/** Reads the part of an address behind "#". */
export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter((part) => part !== "").map(decode);
  const parameters = new URLSearchParams(query);
  const [view = "cluster", first, second] = parts;
  switch (`${view}/${parts.length}`) {
    case "cluster/0":
    case "cluster/1":
      return { view: "cluster", find: parameters.get("find") ?? "" };
    case "queue/1":
    case "tasks/1":
    case "plans/1":
    case "history/1":
    case "decisions/1":
      return { view: view as "queue" };
    case "whatif/1":
      return whatIfRoute(parameters);
    case "tasks/3":
      return { view: "task", namespace: first ?? "", name: second ?? "" };
    case "plans/2":
      return { view: "plan", name: first ?? "" };
    case "decisions/2":
      return /^\d+$/.test(first ?? "") ? { view: "decision", id: Number(first) } : { view: "unknown" };
    default:
      return { view: "unknown" };
  }
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
  decision: (id: number) => `#/decisions/${id}`,
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
