// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

export interface ServerEvent {
  event: string;
  data: string;
  id: string;
}

/** Reads server-sent events from pieces of text, wherever these are cut. */
export class EventParser {
  /** The pieces of the line that has not ended yet: a line may be many megabytes, so it is put together only once. */
  private line: string[] = [];
  private afterCarriageReturn = false;
  private atStart = true;
  private event = "";
  private data: string[] = [];
  private id = "";

  constructor(private readonly onComment: () => void = () => {}) {}

  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    if (text === "") return events;
    let start = this.afterCarriageReturn && text[0] === "\n" ? 1 : 0;
    if (this.atStart && text[0] === "\uFEFF") start = 1;
    this.atStart = this.afterCarriageReturn = false;
    const breaks = /[\r\n]/g;
    for (;;) {
      breaks.lastIndex = start;
      const end = breaks.exec(text)?.index;
      if (end === undefined) break;
      this.line.push(text.slice(start, end));
      const line = this.line.join("");
      this.line = [];
      this.take(line, events);
      start = end + 1;
      if (text[end] !== "\r") continue;
      if (start === text.length) this.afterCarriageReturn = true;
      else if (text[start] === "\n") start++;
    }
    if (start < text.length) this.line.push(text.slice(start));
    return events;
  }

  private take(line: string, events: ServerEvent[]): void {
    if (line === "") {
      this.finish(events);
      return;
    }
    if (line.startsWith(":")) {
      this.onComment();
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.event = value;
    else if (field === "data") this.data.push(value);
    else if (field === "id" && !value.includes("\0")) this.id = value;
  }

  private finish(events: ServerEvent[]): void {
    if (this.data.length > 0) {
      events.push({ event: this.event || "message", data: this.data.join("\n"), id: this.id });
    }
    this.event = "";
    this.data = [];
  }
}

/** The text of a stream, decoded as it comes: characters may be cut by the ends of chunks. */
export async function* textOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const text = done ? decoder.decode() : decoder.decode(value, { stream: true });
      if (text !== "") yield text;
      if (done) return;
    }
  } finally {
    // An unread rest must not keep the connection.
    reader.cancel().catch(() => {});
  }
}
