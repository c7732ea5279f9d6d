import { firstAt } from '../../lib/sharing/lists.ts';
import { type Audience, isFor, type Line, type Span } from './messages.ts';

/** A message with its audience at that time. */
export interface LoggedMessage {
  readonly line: Line;
  /** The position of the message; counts up by one. */
  readonly position: number;
  readonly audience: Audience;
}

export interface LogLimits {
  readonly messages: number;
  /** Total size of the messages' bodies (bytes). */
  readonly bytes: number;
  /** Number of names in the spans that only the log may still reference, each span counted once. */
  readonly names: number;
  /** Number of messages for few nodes in one batch; if there are more, these are left out. */
  readonly ownMessages: number;
}

export const LOG_LIMITS: LogLimits = {
  messages: 10_000,
  bytes: 8 << 20,
  names: 2_000_000,
  ownMessages: 500,
};

const MOST_GAPS = 1000;

/**
 * Keeps the last messages, for watchers that reconnect after a short break. `start` is the position
 * before the first one.
 */
export class ResumeLog {
  readonly #limits: LogLimits;
  #entries: LoggedMessage[] = [];
  /** Entries before this index are discarded; the array is shortened from time to time. */
  #first = 0;
  #oldest: number;
  #bytes = 0;
  #names = 0;
  #gaps: { readonly position: number; readonly nodes: Span }[] = [];
  readonly #uses = new Map<Span, number>();

  constructor(start: number, limits: LogLimits = LOG_LIMITS) {
    this.#limits = limits;
    this.#oldest = start;
  }

  /** Adds a batch of messages, as one publish sends them. */
  append(entries: readonly LoggedMessage[]): void {
    const leftOut = nodesWithTooMany(entries, this.#limits.ownMessages);
    for (const entry of entries) if (leftOut === null || !isForFew(entry.audience)) this.#add(entry);
    if (leftOut !== null) this.#leaveOut(entries.at(-1)?.position ?? 0, leftOut);
  }

  /** Whether all messages sent to a node after `position` are in the log. */
  reaches(position: number, node: string): boolean {
    if (position < this.#oldest) return false;
    return !this.#gaps.some((gap) => gap.position > position && gap.nodes.has(node));
  }

  /** The messages sent to a node after `position`; null if they are not all in the log. */
  since(position: number, node: string): readonly Line[] | null {
    if (!this.reaches(position, node)) return null;
    const entries = this.#entries;
    const first = firstAt(this.#first, entries.length, (i) => (entries[i]?.position ?? 0) > position);
    const lines: Line[] = [];
    for (let i = first; i < entries.length; i++) {
      const entry = entries[i];
      if (entry !== undefined && isFor(entry.audience, node)) lines.push(entry.line);
    }
    return lines;
  }

  #add(entry: LoggedMessage): void {
    this.#entries.push(entry);
    this.#bytes += entry.line.body.length;
    for (const span of entry.audience ?? []) this.#count(span, 1);
    while (
      this.#entries.length - this.#first > this.#limits.messages ||
      this.#bytes > this.#limits.bytes ||
      this.#names > this.#limits.names
    )
      this.#forgetOldest();
  }

  /**
   * Records that these nodes' messages at `position` were not logged: they can't resume from before
   * it.
   */
  #leaveOut(position: number, nodes: Span): void {
    this.#gaps.push({ position, nodes });
    if (this.#gaps.length > MOST_GAPS)
      this.#oldest = Math.max(this.#oldest, this.#gaps.shift()?.position ?? 0);
  }

  #count(span: Span, by: number): void {
    const now = (this.#uses.get(span) ?? 0) + by;
    if (by > 0 && now === by) this.#names += span.size;
    if (now > 0) this.#uses.set(span, now);
    else {
      this.#uses.delete(span);
      this.#names -= span.size;
    }
  }

  #forgetOldest(): void {
    const entry = this.#entries[this.#first++];
    if (entry === undefined) return;
    this.#oldest = entry.position;
    this.#bytes -= entry.line.body.length;
    for (const span of entry.audience ?? []) this.#count(span, -1);
    if (this.#first > 1000 && 2 * this.#first > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#first);
      this.#first = 0;
      this.#gaps = this.#gaps.filter((gap) => gap.position > this.#oldest);
    }
  }
}

/** Messages for at most so many nodes are those of single nodes, not of a change for many. */
const FEW_NODES = 16;

function isForFew(audience: Audience): audience is readonly Span[] {
  return audience !== null && audience.reduce((names, span) => names + span.size, 0) <= FEW_NODES;
}

/**
 * A node that joins, or is relabelled, gets messages of all its policies: that many messages for
 * one node would displace those of all others from the log. Returns the nodes whose messages are
 * not logged, so that they get a whole view if they resume from before them; null if all messages
 * fit.
 */
function nodesWithTooMany(entries: readonly LoggedMessage[], most: number): Span | null {
  const own = entries.filter(({ audience }) => isForFew(audience));
  if (own.length <= most) return null;
  return new Set(own.flatMap(({ audience }) => (audience ?? []).flatMap((span) => [...span])));
}

/**
 * How far the watches had come whose objects a state was compiled from: for each resource, in an
 * order that is the same in every controller, the resource version of its newest object or
 * deletion. Empty where the objects do not come from a cluster.
 */
type Position = readonly number[];

/** A position in the stream of one hub. Opaque to receivers. */
export interface Revision {
  /** Identifies the hub. */
  readonly epoch: string;
  /** Counts the messages of the hub. */
  readonly number: number;
  readonly position: Position;
}

/** `EPOCH.NUMBER.POSITION`, or `EPOCH.NUMBER` without a position. Numbers of it have base 36. */
export function formatRevision({ epoch, number, position }: Revision): string {
  const versions = position.map((version) => version.toString(36)).join('-');
  return `${epoch}.${number}${versions === '' ? '' : `.${versions}`}`;
}

const FORM =
  /^(?<epoch>[^.]{1,64})\.(?<number>\d{1,15})(?:\.(?<versions>[0-9a-z]{1,11}(?:-[0-9a-z]{1,11}){0,31}))?$/;

/** Null if the text is not a revision. */
export function parseRevision(text: string): Revision | null {
  const { epoch = '', number, versions = '' } = FORM.exec(text)?.groups ?? {};
  if (number === undefined) return null;
  const position = versions === '' ? [] : versions.split('-').map((digits) => Number.parseInt(digits, 36));
  return { epoch, number: Number(number), position };
}
