// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useMemo, useReducer, useState } from "preact/hooks";

import type { CollectionName, Collections, Summary } from "./api";
import { get, isAbort, messageOf } from "./client";
import { Live, type Connection } from "./live";
import { parseRoute, queryOf, withQuery, type Route } from "./route";

/** The one connection of the page. */
export const live = new Live();

export interface Collection<C extends CollectionName> {
  rows: ReadonlyMap<string, Collections[C]>;
  /** Changes with the rows, which are always in the same map. */
  changes: number;
  /** Changes when rows come or go. */
  keyChanges: number;
}

/** The rows of a collection; the component is rendered again when they change. */
export function useCollection<C extends CollectionName>(name: C): Collection<C> {
  const [, rerender] = useReducer((count: number) => count + 1, 0);
  useEffect(() => live.store.subscribe([name], () => rerender(undefined as never)), [name]);
  return { rows: live.store.rows[name], changes: live.store.changesOf(name), keyChanges: live.store.keyChangesOf(name) };
}

/** One row of a collection. Other rows may change as often as they like. */
export function useRow<C extends CollectionName>(name: C, key: string): Collections[C] | undefined {
  const read = () => live.store.rows[name].get(key) as Collections[C] | undefined;
  const [, setRow] = useState<Collections[C] | undefined>(read);
  useEffect(() => {
    const update = () => setRow(() => read());
    update();
    return live.store.subscribe([name], update);
  }, [name, key]);
  return read();
}

export function useSummary(): Summary | undefined {
  return useRow("summary", "");
}

export function useConnection(): Connection {
  const [connection, setConnection] = useState(live.connection);
  useEffect(() => {
    setConnection(live.connection);
    return live.subscribe(() => setConnection(live.connection));
  }, []);
  return connection;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const update = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}

/** What the address says behind "?", and what changes some of it; empty values are left out. The browser's "back" does not go through these changes. */
export function useQuery(): [URLSearchParams, (changes: Record<string, string>) => void] {
  const [query, setQuery] = useState(() => queryOf(location.hash));
  useEffect(() => {
    const update = () => setQuery(queryOf(location.hash));
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  const change = (changes: Record<string, string>) => {
    history.replaceState(null, "", withQuery(location.hash, changes));
    setQuery(queryOf(location.hash));
  };
  return [query, change];
}

/** Names tasks with their namespaces, unless there is only one. */
export function useTaskNames(): (namespace: string, name: string) => string {
  const tasks = useCollection("tasks");
  const waiting = useCollection("waiting");
  const several = useMemo(() => differ(tasks.rows.values(), waiting.rows.values()), [tasks.keyChanges, waiting.keyChanges]);
  return (namespace, name) => (several ? `${namespace}/${name}` : name);
}

/** Reports whether some rows are of other namespaces than others. */
function differ(...all: Iterable<{ namespace: string }>[]): boolean {
  let first: string | undefined;
  for (const rows of all) {
    for (const { namespace } of rows) {
      if (namespace !== (first ??= namespace)) return true;
    }
  }
  return false;
}

/** True while the page is connected: what failed before may succeed now. */
export function useIsLive(): boolean {
  return useConnection().state === "live";
}

export interface Fetched<T> {
  value: T | undefined;
  error: string;
  loading: boolean;
  reload: () => void;
}

/**
 * What the server answers at a path; nothing is asked while it is empty. It is asked again, after a pause, when the version changes and when
 * the connection comes back; the last answer stays until then. Several changes within the pause are one.
 */
export function useFetched<T>(path: string, version: unknown = "", pause = 500): Fetched<T> {
  const [state, setState] = useState<{ path: string; value?: T; error: string; loading: boolean }>({ path, error: "", loading: true });
  const [reloads, reload] = useReducer((count: number) => count + 1, 0);
  const isLive = useIsLive();
  const known = state.path === path && state.value !== undefined;
  useEffect(() => {
    // What is shown stays as long as there is no connection.
    if (path === "" || (known && !isLive)) return;
    const controller = new AbortController();
    const load = async () => {
      setState((old) => (old.path === path ? { ...old, loading: true } : { path, error: "", loading: true }));
      try {
        const value = await get<T>(path, controller.signal);
        setState({ path, value, error: "", loading: false });
      } catch (error) {
        if (isAbort(error)) return;
        setState((old) => ({ ...old, path, error: messageOf(error), loading: false }));
      }
    };
    const timer = setTimeout(() => void load(), known ? pause : 0);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [path, version, reloads, isLive]);
  const current = state.path === path ? state : { error: "", loading: true, value: undefined };
  return { value: current.value, error: current.error, loading: current.loading, reload: () => reload(undefined as never) };
}

/** Counts up once in the given number of seconds. */
export function useTick(seconds: number): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setCount((old) => old + 1), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return count;
}

/** A choice that is kept in the tab's memory, so that it is the same when a view is opened again. */
export function useKept<T extends string>(name: string, initial: T): [T, (value: T) => void] {
  const key = `gputask-${name}`;
  const [value, setValue] = useState<T>(() => {
    try {
      return (sessionStorage.getItem(key) as T | null) ?? initial;
    } catch {
      return initial;
    }
  });
  const keep = (next: T) => {
    setValue(next);
    try {
      sessionStorage.setItem(key, next);
    } catch {
      // Without storage the choice lasts as long as the view.
    }
  };
  return [value, keep];
}
