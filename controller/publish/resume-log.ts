import type { Line } from './line.ts';
import { type Audience, isFor, type Span } from './spans.ts';

/** A message, and whom it is for as of then. */
export interface Entry {
  readonly line: Line;
  /** Of the message: counts up by one. */
  readonly position: number;
  readonly audience: Audience;
}

export interface ResumeLog {
  append(entry: Entry): void;
  /** These nodes' messages of `position` are not kept: they can't resume from before it. */
  leaveOut(position: number, nodes: Span): void;
  /** What a node was told after `position`; null where that isn't known any more. */
  since(position: number, node: string): readonly Line[] | null;
}

export interface LogLimits {
  readonly messages: number;
  /** Of the messages' bodies. */
  readonly bytes: number;
  /** Names in the spans that only the log may still hold, each span counted once. */
  readonly names: number;
}

export const LOG_LIMITS: LogLimits = { messages: 10_000, bytes: 8 << 20, names: 2_000_000 };

const MOST_GAPS = 1000;

/** Keeps the last messages, for watchers that come back after a short break. `start` is the position before the first of them. */
export function resumeLog(start: number, limits: LogLimits = LOG_LIMITS): ResumeLog {
  let entries: Entry[] = [];
  /** Entries before this index are forgotten; they are cut off in one go now and then. */
  let first = 0;
  let oldest = start;
  let bytes = 0;
  let names = 0;
  let gaps: { readonly position: number; readonly nodes: Span }[] = [];
  const uses = new Map<Span, number>();

  const count = (span: Span, by: number): void => {
    const now = (uses.get(span) ?? 0) + by;
    if (by > 0 && now === by) names += span.size;
    if (now > 0) uses.set(span, now);
    else {
      uses.delete(span);
      names -= span.size;
    }
  };
  const forgetOldest = (): void => {
    const entry = entries[first++];
    if (entry === undefined) return;
    oldest = entry.position;
    bytes -= entry.line.body.length;
    for (const span of entry.audience ?? []) count(span, -1);
    if (first > 1000 && 2 * first > entries.length) {
      entries = entries.slice(first);
      first = 0;
      gaps = gaps.filter((gap) => gap.position > oldest);
    }
  };
  return {
    append(entry) {
      entries.push(entry);
      bytes += entry.line.body.length;
      for (const span of entry.audience ?? []) count(span, 1);
      while (entries.length - first > limits.messages || bytes > limits.bytes || names > limits.names)
        forgetOldest();
    },
    leaveOut(position, nodes) {
      gaps.push({ position, nodes });
      if (gaps.length > MOST_GAPS) oldest = Math.max(oldest, gaps.shift()?.position ?? 0);
    },
    since(position, node) {
      if (position < oldest) return null;
      if (gaps.some((gap) => gap.position > position && gap.nodes.has(node))) return null;
      let low = first;
      let high = entries.length;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((entries[middle]?.position ?? 0) <= position) low = middle + 1;
        else high = middle;
      }
      const lines: Line[] = [];
      for (let i = low; i < entries.length; i++) {
        const entry = entries[i];
        if (entry !== undefined && isFor(entry.audience, node)) lines.push(entry.line);
      }
      return lines;
    },
  };
}
