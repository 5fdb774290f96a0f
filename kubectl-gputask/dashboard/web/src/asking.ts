// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

export interface Answered<T> {
  /** What the last question was answered with, or why it was not; both are missing before the first one. */
  value?: T;
  error?: unknown;
  /** True while the answer is not yet about what was asked last. */
  busy: boolean;
}

/** Asks a moment after the last change, one question at a time. What is answered after a further change is dropped. */
export class Asker<T> {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private running: AbortController | undefined;
  private wanted: string | undefined;
  private last: Answered<T> = { busy: false };

  constructor(
    private readonly ask: (question: string, signal: AbortSignal) => Promise<T>,
    private readonly report: (answered: Answered<T>) => void,
    private readonly pause = 300,
  ) {}

  change(question: string, pause = this.pause): void {
    clearTimeout(this.timer);
    this.wanted = question;
    this.say({ ...this.last, busy: true });
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.next();
    }, pause);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.wanted = undefined;
    this.running?.abort();
    this.running = undefined;
  }

  private async next(): Promise<void> {
    if (this.running || this.timer !== undefined || this.wanted === undefined) return;
    const question = this.wanted;
    const running = this.running = new AbortController();
    this.wanted = undefined;
    const answered = await this.ask(question, running.signal).then((value) => ({ value }), (error: unknown) => ({ error }));
    if (this.running !== running) return; // it was stopped
    this.running = undefined;
    if (this.wanted === undefined) this.say({ ...answered, busy: false });
    else await this.next();
  }

  private say(answered: Answered<T>): void {
    this.last = answered;
    this.report(answered);
  }
}
