import type { Update } from '../../apis/stream.ts';

/** A message as every watcher gets it: only the sequence number before it differs. */
export interface Line {
  /** The controller's position after it. */
  readonly revision: string;
  /** The line from `"type"` on, with the end of the line. Shared by all watchers: never changed. */
  readonly body: Buffer;
}

/** The part of a line that all watchers share. */
export function toBody(update: Update): Buffer {
  return Buffer.from(`${JSON.stringify(update).slice(1)}\n`);
}

/** What comes before the body. `sequence` counts from 1 in each stream. */
export function linePrefix(sequence: number, { revision }: Line): string {
  return `{"sequence":${sequence},"revision":"${revision}",`;
}
