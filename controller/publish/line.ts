/** A message as all watchers get it: only the sequence number in its prefix differs. */
export interface Line {
  /** The controller's position after this message. */
  readonly revision: string;
  /** The line from `"type"` on, with its line feed. Shared by all watchers: never changed. */
  readonly body: Buffer;
  /** Only for watchers that know it; absent: for all. */
  readonly feature?: 'egress';
}

/** The prefix of the body. `sequence` counts from 1 in each stream. */
export function linePrefix(sequence: number, { revision }: Line): string {
  return `{"sequence":${sequence},"revision":"${revision}",`;
}
