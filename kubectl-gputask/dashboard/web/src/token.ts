// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

const key = "gputask-token";

let inMemory = "";

/** Moves a token from the address to the memory of the tab, so that it is in no history and no bookmark. Reports whether there was one. */
export function takeTokenFromAddress(): boolean {
  const match = /^#(?:.*&)?token=([^&]*)/.exec(location.hash);
  if (!match) return false;
  history.replaceState(null, "", location.pathname + location.search + "#/cluster");
  keepToken(decode(match[1] ?? ""));
  return true;
}

export function keepToken(token: string): void {
  inMemory = token.trim();
  try {
    sessionStorage.setItem(key, inMemory);
  } catch {
    // Without storage the token lasts until the page is loaded again.
  }
}

export function currentToken(): string {
  if (inMemory !== "") return inMemory;
  try {
    inMemory = sessionStorage.getItem(key) ?? "";
  } catch {
    // As above.
  }
  return inMemory;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
