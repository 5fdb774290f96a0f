// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Member } from "../api";
import { isAbort, messageOf, request } from "../client";
import { counted, list, number } from "../format";
import { LastLines, type LogLine } from "../lines";
import { useIsLive } from "../page";
import { textOf } from "../sse";
import { Choice } from "./Choice";
import { CopyButton } from "./Copy";
import { Empty, Failed } from "./Notes";

const mostLines = 5_000;
const tail = 500;
const lineHeight = 18;
const beyond = 20;

/** The logs of one container of a task. They are read only once somebody asks for them. */
export function Logs({ path, members }: { path: string; members: readonly Member[] }): JSX.Element {
  const [open, setOpen] = useState(false);
  const withLogs = members.filter((member) => list(member.containers).length > 0);
  if (withLogs.length === 0) return <Empty>No Pod of it has containers now.</Empty>;
  if (!open) return <p><button type="button" onClick={() => setOpen(true)}>Show logs</button></p>;
  return <OpenLogs path={path} members={withLogs} />;
}

function OpenLogs({ path, members }: { path: string; members: readonly Member[] }): JSX.Element {
  const [podName, setPod] = useState(members[0]!.name);
  const [containerName, setContainer] = useState("");
  const [follow, setFollow] = useState(true);
  const [search, setSearch] = useState("");
  const member = members.find((one) => one.name === podName) ?? members[0]!;
  const containers = list(member.containers);
  const container = containers.includes(containerName) ? containerName : containers[0]!;
  const log = useLog(`${path}?pod=${encodeURIComponent(member.name)}&container=${encodeURIComponent(container)}&follow=${follow}&tail=${tail}`);
  const found = useMemo(() => matching(log.lines, search), [log.lines, search]);
  return (
    <>
      <form class="toolbar" role="search" aria-label="Logs" onSubmit={(event) => event.preventDefault()}>
        <Choice label="Pod" value={member.name} onChange={setPod} options={members.map(({ name }) => ({ value: name, label: name }))} />
        <Choice label="Container" value={container} onChange={setContainer} options={containers.map((name) => ({ value: name, label: name }))} />
        <label class="field grow"><span>Find in the lines</span><input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></label>
        <label class="check"><input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} />Follow</label>
        <CopyButton text={() => found.map((line) => line.text).join("\n")} what="the lines" />
      </form>
      <Failed message={log.error} />
      <LineList lines={found} search={search} follow={follow} />
      <p class="hint">
        {search === "" ? counted(found.length, "line") : `${counted(found.length, "line")} of ${number(log.lines.length)} found`}
        {log.dropped > 0 && `; earlier lines are not kept`}{log.ended && "; the log has ended"}.
      </p>
    </>
  );
}

/** Only the lines that are seen are in the document. */
function LineList({ lines, search, follow }: { lines: readonly LogLine[]; search: string; follow: boolean }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [atEnd, setAtEnd] = useState(true);
  useLayoutEffect(() => {
    const element = box.current;
    if (element && follow && atEnd) element.scrollTop = element.scrollHeight;
  }, [lines, follow]);
  const onScroll = () => {
    const element = box.current!;
    setTop(element.scrollTop);
    setAtEnd(element.scrollTop + element.clientHeight >= element.scrollHeight - lineHeight);
  };
  const height = box.current?.clientHeight ?? 400;
  const first = Math.max(0, Math.floor(top / lineHeight) - beyond);
  const end = Math.min(lines.length, Math.ceil((top + height) / lineHeight) + beyond);
  return (
    <div class="log" ref={box} tabIndex={0} role="group" aria-label="Lines of the log" onScroll={onScroll}>
      <div class="log-inner" style={{ height: `${lines.length * lineHeight}px` }}>
        <pre style={{ transform: `translateY(${first * lineHeight}px)` }}>
          {lines.slice(first, end).map((line) => <Line key={line.number} text={line.text} search={search} />)}
        </pre>
      </div>
    </div>
  );
}

function Line({ text, search }: { text: string; search: string }): JSX.Element {
  const at = search === "" ? -1 : text.toLowerCase().indexOf(search.toLowerCase());
  if (at < 0) return <div>{text || " "}</div>;
  return <div>{text.slice(0, at)}<mark>{text.slice(at, at + search.length)}</mark>{text.slice(at + search.length)}</div>;
}

interface Log {
  lines: LogLine[];
  dropped: number;
  error: string;
  ended: boolean;
}

const nothing: Log = { lines: [], dropped: 0, error: "", ended: false };
const refreshAfter = 150;

function useLog(path: string): Log {
  const [log, setLog] = useState(nothing);
  const [attempt, setAttempt] = useState(0);
  const isLive = useIsLive();
  useEffect(() => {
    if (isLive && log.error !== "") setAttempt(attempt + 1);
  }, [isLive]);
  useEffect(() => {
    const controller = new AbortController();
    const lines = new LastLines(mostLines);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (error = "", ended = false) => {
      clearTimeout(timer);
      timer = undefined;
      if (!controller.signal.aborted) setLog({ lines: lines.all(), dropped: lines.dropped, error, ended });
    };
    setLog(nothing);
    void read(path, controller.signal, (text) => {
      lines.push(text);
      timer ??= setTimeout(show, refreshAfter);
    }).then(() => show("", true), (error) => { if (!isAbort(error)) show(messageOf(error), true); });
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [path, attempt]);
  return log;
}

async function read(path: string, signal: AbortSignal, onText: (text: string) => void): Promise<void> {
  const response = await request(path, { signal });
  if (!response.body) return;
  for await (const text of textOf(response.body)) onText(text);
}

function matching(lines: readonly LogLine[], search: string): readonly LogLine[] {
  if (search === "") return lines;
  const wanted = search.toLowerCase();
  return lines.filter((line) => line.text.toLowerCase().includes(wanted));
}
