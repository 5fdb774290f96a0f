// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";

const paths = {
  check: "M3 8.5l3.2 3.2L13 4.8",
  cross: "M4 4l8 8M12 4l-8 8",
  clock: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 1 0 8 1.8M8 4.5V8l2.6 1.8",
  play: "M5 3.2v9.6l7.6-4.8z",
  pause: "M5.2 3.5v9M10.8 3.5v9",
  warning: "M8 2.2L14.4 13.4H1.6zM8 6.4v3.4M8 11.6v.2",
  info: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 1 0 8 1.8M8 7.2v4M8 4.8v.2",
  forbidden: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 1 0 8 1.8M3.6 3.6l8.8 8.8",
  moves: "M2 5.2h10M9.4 2.4l3 2.8-3 2.8M14 10.8H4M6.6 8l-3 2.8 3 2.8",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  sun: "M8 5a3 3 0 1 0 0 6A3 3 0 1 0 8 5M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8L13 13M13 3l-1.2 1.2M4.2 11.8L3 13",
  moon: "M13.2 9.6A5.8 5.8 0 1 1 6.4 2.8a4.8 4.8 0 0 0 6.8 6.8z",
  plug: "M5.5 1.8v3.4M10.5 1.8v3.4M3.5 5.2h9v2.3a4.5 4.5 0 0 1-9 0zM8 12v2.4",
  circle: "M8 4.4a3.6 3.6 0 1 0 0 7.2A3.6 3.6 0 1 0 8 4.4",
} as const;

export type IconName = keyof typeof paths;

/** A sign that only repeats what a text beside it says. */
export function Icon({ name, class: className }: { name: IconName; class?: string }): JSX.Element {
  return (
    <svg class={`icon ${className ?? ""}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path d={paths[name]} fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
