// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { CollectionName, Collections, Update } from "./api";

export type Rows = { readonly [C in CollectionName]: Map<string, Collections[C]> };

export const collectionNames: readonly CollectionName[] =
  ["summary", "nodes", "load", "tasks", "waiting", "queues", "plans", "samples"];

type Listener = () => void;

/** The live data. Listeners hear of changes when the scheduler says so, however many updates have come by then. */
export class Store {
  readonly rows: Rows = {
    summary: new Map(), nodes: new Map(), load: new Map(), tasks: new Map(),
    waiting: new Map(), queues: new Map(), plans: new Map(), samples: new Map(),
  };
  /** True once everything has been received. */
  complete = false;
  private readonly changes = counters();
  private readonly keyChanges = counters();
  private readonly listeners = new Map<Listener, ReadonlySet<CollectionName>>();
  private readonly changed = new Set<CollectionName>();
  private scheduled = false;

  constructor(private readonly schedule: (task: () => void) => void) {}

  /** How often a collection has changed. */
  changesOf(name: CollectionName): number {
    return this.changes[name];
  }

  /** How often a row of a collection has come or gone. */
  keyChangesOf(name: CollectionName): number {
    return this.keyChanges[name];
  }

  subscribe(names: readonly CollectionName[], listener: Listener): () => void {
    this.listeners.set(listener, new Set(names));
    return () => this.listeners.delete(listener);
  }

  apply(update: Update): void {
    if (update.reset) {
      for (const name of collectionNames) this.clear(name);
    }
    for (const name of collectionNames) {
      this.remove(name, update.remove?.[name]);
      this.set(name, update.set?.[name]);
    }
    this.complete = true;
    this.notifySoon();
  }

  private clear(name: CollectionName): void {
    // Also an empty collection counts as changed: that it is empty is news now.
    this.rows[name].clear();
    this.count(name, true);
  }

  private remove(name: CollectionName, keys: readonly string[] | undefined): void {
    let gone = false;
    for (const key of keys ?? []) gone = this.rows[name].delete(key) || gone;
    if (gone) this.count(name, true);
  }

  private set<C extends CollectionName>(name: C, rows: Record<string, Collections[C]> | undefined): void {
    const entries = Object.entries(rows ?? {}) as [string, Collections[C]][];
    if (entries.length === 0) return;
    const all = this.rows[name] as Map<string, Collections[C]>;
    const before = all.size;
    for (const [key, row] of entries) all.set(key, row);
    this.count(name, all.size !== before);
  }

  private count(name: CollectionName, keys: boolean): void {
    this.changes[name]++;
    if (keys) this.keyChanges[name]++;
    this.changed.add(name);
  }

  private notifySoon(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    this.schedule(() => {
      this.scheduled = false;
      const changed = [...this.changed];
      this.changed.clear();
      for (const [listener, names] of [...this.listeners]) {
        if (changed.some((name) => names.has(name))) listener();
      }
    });
  }
}

function counters(): Record<CollectionName, number> {
  return { summary: 0, nodes: 0, load: 0, tasks: 0, waiting: 0, queues: 0, plans: 0, samples: 0 };
}
