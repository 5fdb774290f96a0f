// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { Done, Failure, InvalidField } from "./api";
import { list, withLocalTimes } from "./format";
import { currentToken } from "./token";

/** A request that was answered, but not with what was asked for. */
export class Refusal extends Error {
  constructor(readonly status: number, message: string, readonly fields: readonly InvalidField[] = []) {
    super(message);
  }
}

/** Called when a request was refused for want of a valid token, so that the whole page can ask for one. */
export const onUnauthorized: { call: (message: string) => void } = { call: () => {} };

/** Addresses are relative to the page's, which may have a path before it. */
export async function request(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  const token = currentToken();
  if (token !== "") headers.set("Authorization", `Bearer ${token}`);
  const response = await fetch(`api/${path}`, { ...options, headers, cache: "no-store", credentials: "same-origin" });
  if (response.ok) return response;
  const { error, fields } = await failureOf(response);
  const refusal = new Refusal(response.status, error, list(fields));
  if (refusal.status === 401) onUnauthorized.call(refusal.message);
  throw refusal;
}

function parsed<T>(text: string): T {
  return JSON.parse(withLocalTimes(text, new Date())) as T;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, { signal: signal ?? null });
  return parsed(await response.text());
}

export async function change(path: string, uid: string): Promise<Done> {
  const response = await request(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ uid }),
  });
  return parsed(await response.text());
}

export async function ask<T>(path: string, text: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, {
    method: "POST", headers: { "Content-Type": "text/plain; charset=utf-8" }, body: text, signal: signal ?? null,
  });
  return parsed(await response.text());
}

/** The path of a task or a part of it; names are escaped. */
export function taskPath(namespace: string, name: string, part = ""): string {
  return `tasks/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}${part === "" ? "" : "/" + part}`;
}

/** What went wrong, for a person. */
export function messageOf(error: unknown): string {
  if (error instanceof TypeError) return "The page's server does not answer.";
  return error instanceof Error ? error.message : String(error);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

async function failureOf(response: Response): Promise<Failure> {
  const text = await response.text().catch(() => "");
  try {
    const failure = JSON.parse(text) as Failure;
    if (typeof failure.error === "string" && failure.error !== "") return failure;
  } catch {
    // Not from our server, but from something before it.
  }
  return { error: `The server answered with ${response.status} ${response.statusText}`.trim() + "." };
}
