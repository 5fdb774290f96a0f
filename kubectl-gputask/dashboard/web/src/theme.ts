// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useState } from "preact/hooks";

export type Theme = "light" | "dark";

const key = "gputask-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let choice: Theme | "auto" = stored();

export function currentTheme(): Theme {
  return choice === "auto" ? systemTheme() : choice;
}

/** What is the system's choice too is left to the system from then on. */
export function chooseTheme(next: Theme): void {
  choice = next === systemTheme() ? "auto" : next;
  try {
    localStorage.setItem(key, choice);
  } catch {
    // Without storage the choice lasts until the page is loaded again.
  }
  showTheme();
}

export function startTheme(): void {
  dark.addEventListener("change", showTheme);
  showTheme();
}

export function useTheme(): Theme {
  const [theme, setTheme] = useState(currentTheme);
  useEffect(() => {
    const listen = () => setTheme(currentTheme());
    listeners.add(listen);
    return () => { listeners.delete(listen); };
  }, []);
  return theme;
}

function systemTheme(): Theme {
  return dark.matches ? "dark" : "light";
}

function showTheme(): void {
  document.documentElement.dataset["theme"] = currentTheme();
  for (const listener of [...listeners]) listener();
}

function stored(): Theme | "auto" {
  try {
    const value = localStorage.getItem(key);
    if (value === "light" || value === "dark") return value;
  } catch {
    // As above.
  }
  return "auto";
}
