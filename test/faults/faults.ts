/** What a proxy between a client and a server may do wrong, and how a test controls it. */

/**
 * How connections are cut: by a reset, by an orderly end in the middle of something, or by silence
 * while they stay open.
 */
export const CUTS = ['reset', 'end', 'silence'] as const;
export type Cut = (typeof CUTS)[number];

/** Faults that any connection meets, whatever is said on it. None by default. */
export interface ByteFaults {
  /** Milliseconds that each piece of data waits, at random between both. */
  readonly delay?: readonly [least: number, most: number];
  /** After how many bytes a connection is cut, on average; exponentially distributed. */
  readonly cutAfter?: number;
  /** How: one of these at random. Default: all. */
  readonly cuts?: readonly [Cut, ...Cut[]];
  /** Which part of new connections is reset at once, 0 to 1. */
  readonly refuse?: number;
}

/**
 * Faults in the lines of a watch's answer; each is the part of lines that it happens to, 0 to 1.
 * None by default.
 */
export interface LineFaults {
  readonly delay?: readonly [least: number, most: number];
  /** The line comes twice. */
  readonly duplicate?: number;
  /** The line never comes. */
  readonly drop?: number;
  /** The line comes after the next one. */
  readonly swap?: number;
  /** Half of the line, then the answer ends as if it were whole. */
  readonly truncate?: number;
  /** A byte of the line is another: no longer the JSON that it was. */
  readonly garble?: number;
  /** The answer ends in order, between two lines. */
  readonly end?: number;
  /** Only lines that contain this are touched. Default: all. */
  readonly only?: string;
}

/** How often each thing happened since the start. */
export type Counts = Readonly<Record<string, number>>;

/**
 * A proxy on one port. Everything can be changed while it runs, for connections that are open too.
 */
export interface FaultyProxy<Faults> {
  readonly port: number;
  /** From now on these, in place of those before. */
  set(faults: Faults): Promise<void>;
  /** Cuts all open connections now. */
  cutAll(cut: Cut): Promise<void>;
  counts(): Promise<Counts>;
  close(): Promise<void>;
}

export interface ListenOptions {
  /** Equal seeds draw equal numbers; what they meet depends on timing all the same. */
  readonly seed: string;
  /** Default 127.0.0.1, and any port. */
  readonly host?: string;
  readonly port?: number;
}

export interface Counter {
  add(what: string): void;
  counts(): Counts;
}

export function counter(): Counter {
  const numbers = new Map<string, number>();
  return {
    add: (what) => void numbers.set(what, (numbers.get(what) ?? 0) + 1),
    counts: () => Object.fromEntries([...numbers].sort()),
  };
}
