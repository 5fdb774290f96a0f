// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

export interface LogLine {
  /** Counts up from 0, also over lines that are not kept any more. */
  number: number;
  text: string;
}

/** A line without an end is cut when it is longer than this. */
const longest = 10_000;

/** The last lines of a text that comes in pieces. */
export class LastLines {
  private lines: LogLine[] = [];
  private rest = "";
  private next = 0;

  constructor(private readonly most: number) {}

  push(text: string): void {
    const pieces = (this.rest + text).split("\n");
    this.rest = pieces.pop() ?? "";
    if (this.rest.length > longest) {
      pieces.push(this.rest);
      this.rest = "";
    }
    for (const piece of pieces) this.lines.push({ number: this.next++, text: withoutControls(piece) });
    // Cutting is not done for each line: that would copy all of them each time.
    if (this.lines.length > 2 * this.most) this.lines = this.lines.slice(-this.most);
  }

  /** All lines that are kept; what has no line end yet counts as a line. */
  all(): LogLine[] {
    const lines = this.lines.slice(-this.most);
    if (this.rest === "") return lines;
    return [...lines, { number: this.next, text: withoutControls(this.rest) }].slice(-this.most);
  }

  /** How many lines are not kept any more. */
  get dropped(): number {
    return Math.max(0, this.next - this.most);
  }
}

/** Without colours and other commands for terminals. A progress bar writes over its line: only its last state is kept. */
function withoutControls(line: string): string {
  const plain = line.replace(/\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g, "").replace(/\r+$/, "");
  const start = plain.lastIndexOf("\r") + 1;
  return plain.slice(start).replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
}
