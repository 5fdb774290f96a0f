// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { absolute, clockTime, duration, relative } from "../format";

const ticks = new Set<() => void>();
setInterval(() => { for (const tick of [...ticks]) tick(); }, 1_000);

/** A text that depends on the time. Only what then differs is rendered again. */
function useTimeText(textAt: (now: Date) => string, key: string): string {
  const [, setText] = useState("");
  useEffect(() => {
    const tick = () => setText(textAt(new Date()));
    ticks.add(tick);
    return () => { ticks.delete(tick); };
  }, [key]);
  return textAt(new Date());
}

/** "3 min ago", with the absolute time on demand. */
export function Time({ at }: { at: string | undefined }): JSX.Element {
  const time = new Date(at ?? "");
  const text = useTimeText((now) => (at ? relative(time, now) : "–"), at ?? "");
  return at ? <time dateTime={at} title={absolute(time)}>{text}</time> : <span>–</span>;
}

/** "12:03", or with the day. */
export function Clock({ at }: { at: string }): JSX.Element {
  const time = new Date(at);
  const text = useTimeText((now) => clockTime(time, now), at);
  return <time dateTime={at} title={absolute(time)}>{text}</time>;
}

/** How long something has lasted, until an end or until now. */
export function Lasted({ from, to }: { from: string; to?: string | undefined }): JSX.Element {
  const begin = new Date(from);
  const text = useTimeText((now) => duration(((to ? new Date(to) : now).getTime() - begin.getTime()) / 1000), from + (to ?? ""));
  return <time dateTime={from} title={`Since ${absolute(begin)}${to ? `, until ${absolute(new Date(to))}` : ""}`}>{text}</time>;
}
