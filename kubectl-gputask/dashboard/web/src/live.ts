// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Update } from "./api";
import { messageOf, onUnauthorized, Refusal, request } from "./client";
import { withLocalTimes } from "./format";
import { EventParser, textOf } from "./sse";
import { Store } from "./store";

export type Connection =
  | { state: "connecting" | "live" }
  | { state: "lost" | "unauthorized" | "forbidden"; message: string };

const firstPause = 500;
const longestPause = 5_000;
/** A server that sends comments to show that it is there, and has sent nothing for so long, is gone: a laptop may have slept. */
const longestSilence = 60_000;

/** Keeps a store up to date. It tries again on its own whatever happens, except without a valid token: then restart must be called. */
export class Live {
  readonly store = new Store((task) => requestAnimationFrame(task));
  private current: Connection = { state: "connecting" };
  private readonly listeners = new Set<() => void>();
  private attempt = new AbortController();

  get connection(): Connection {
    return this.current;
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start(): void {
    onUnauthorized.call = (message) => this.stopFor(message);
    this.restart();
  }

  restart(): void {
    this.attempt.abort();
    this.attempt = new AbortController();
    this.tell({ state: "connecting" });
    void this.follow(this.attempt.signal);
  }

  private stopFor(message: string): void {
    this.attempt.abort();
    this.tell({ state: "unauthorized", message });
  }

  private async follow(signal: AbortSignal): Promise<void> {
    let pause = firstPause;
    while (!signal.aborted) {
      const began = performance.now();
      const failure = await this.stream(signal);
      if (signal.aborted) return;
      this.tell(failure);
      if (performance.now() - began > 2 * longestPause) pause = firstPause;
      await sleep(pause, signal);
      pause = Math.min(2 * pause, longestPause);
    }
  }

  /** Reads the stream until it ends, and returns why it has. */
  private async stream(signal: AbortSignal): Promise<Connection> {
    const watchdog = new Watchdog(signal);
    try {
      const response = await request("live", { signal: watchdog.signal, headers: { Accept: "text/event-stream" } });
      if (!response.body) throw new Error("The stream of the page's server can't be read.");
      const parser = new EventParser(() => watchdog.arm());
      for await (const text of textOf(response.body)) {
        watchdog.hear();
        for (const event of parser.push(text)) this.take(JSON.parse(withLocalTimes(event.data, new Date())) as Update);
      }
      return { state: "lost", message: "" };
    } catch (error) {
      return { state: error instanceof Refusal && error.status === 403 ? "forbidden" : "lost", message: reasonOf(error) };
    } finally {
      watchdog.end();
    }
  }

  private take(update: Update): void {
    this.store.apply(update);
    if (this.current.state !== "live") this.tell({ state: "live" });
  }

  private tell(connection: Connection): void {
    this.current = connection;
    for (const listener of [...this.listeners]) listener();
  }
}

/** Ends a stream that has become silent. */
class Watchdog {
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private armed = false;

  constructor(outer: AbortSignal) {
    outer.addEventListener("abort", () => this.controller.abort(), { signal: this.controller.signal });
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  arm(): void {
    this.armed = true;
    this.hear();
  }

  hear(): void {
    clearTimeout(this.timer);
    if (this.armed) this.timer = setTimeout(() => this.controller.abort(), longestSilence);
  }

  end(): void {
    clearTimeout(this.timer);
    this.controller.abort();
  }
}

/** What a person should know beyond that the connection is lost. */
function reasonOf(error: unknown): string {
  return error instanceof Refusal ? messageOf(error) : "";
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
