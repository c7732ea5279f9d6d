import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Line, linePrefix } from './messages.ts';

/** Milliseconds and bytes. */
export interface StreamLimits {
  /**
   * A watcher with more unsent bytes than this is too slow after the time `slow`. If a whole view
   * plus 64 KiB is more, that is the limit.
   */
  readonly unsent: number;
  readonly slow: number;
  /**
   * A watcher that receives no byte for this time is considered gone, whatever the state of its TCP
   * connection.
   */
  readonly stalled: number;
}

export const STREAM_LIMITS: StreamLimits = { unsent: 4 << 20, slow: 10_000, stalled: 60_000 };

/**
 * The amount passed to the connection at a time (bytes): TLS encrypts into memory of each watcher,
 * and thousands of watchers may be blocked at the same time, in the middle of an address set of
 * megabytes.
 */
const SLICE = 32 << 10;

/**
 * The response to one watcher. Its queue only has references, because lines are shared. The head of
 * `response` must have been written; it is sent with the first lines. Nothing else may write to it.
 * Throws if the connection is closed.
 */
export class WatchStream {
  readonly #response: ServerResponse;
  readonly #now: () => number;
  readonly #limits: StreamLimits;
  readonly #socket: Socket;
  #queue: Line[] = [];
  #next = 0;
  /** The number of bytes of the next line's body that have been passed on. */
  #offset = 0;
  #queued = 0;
  #sequence = 0;
  #sent = 0;
  #lastSent: number;
  #progress: number;
  #above: number | null = null;
  #most: number | null = null;

  constructor(response: ServerResponse, now: () => number, limits: StreamLimits = STREAM_LIMITS) {
    this.#response = response;
    this.#now = now;
    this.#limits = limits;
    const { socket } = response;
    if (socket === null) throw new Error('the connection is closed');
    this.#socket = socket;
    this.#lastSent = now();
    this.#progress = this.#lastSent;
    const drained = (): void => this.#drained();
    socket.on('drain', drained);
    response.once('close', () => {
      socket.off('drain', drained);
      this.#queue = [];
      this.#next = 0;
      this.#queued = 0;
    });
  }

  send(lines: readonly Line[]): void {
    if (this.#response.writableEnded || this.#socket.destroyed) return;
    if (this.#unsent() === 0) this.#progress = this.#now();
    for (const line of lines) {
      this.#queue.push(line);
      this.#queued += line.body.length;
    }
    this.#most ??= Math.max(this.#limits.unsent, (64 << 10) + this.#queued);
    this.#lastSent = this.#now();
    this.#flush();
  }

  /** Bytes that the kernel has not accepted yet. */
  get unsent(): number {
    return this.#unsent();
  }

  /**
   * Bytes passed to the connection so far: lines with their prefixes, without the overhead of HTTP
   * and TLS.
   */
  get sent(): number {
    return this.#sent;
  }

  /** The time when lines were last queued, by the caller's clock (milliseconds). */
  get lastSent(): number {
    return this.#lastSent;
  }

  /**
   * The reason if the watcher is too slow to be kept, else null; must be called about once a
   * second.
   */
  tooSlow(): string | null {
    const waiting = this.#unsent();
    const time = this.#now();
    this.#above = waiting > (this.#most ?? this.#limits.unsent) ? (this.#above ?? time) : null;
    if (this.#above !== null && time - this.#above > this.#limits.slow)
      return `${waiting} bytes are unsent since ${Math.round((time - this.#above) / 1000)} s`;
    if (waiting > 0 && time - this.#progress > this.#limits.stalled)
      return `it has received nothing for ${Math.round((time - this.#progress) / 1000)} s`;
    return null;
  }

  /** Writes one HTTP chunk, in one write to the connection, for any number of lines. */
  #handOver(): void {
    let size = 0;
    // The response's own cork combines a chunk, but uncorks the socket before it writes; so the
    // socket is corked here.
    this.#socket.cork();
    this.#response.cork();
    while (size < SLICE) {
      const line = this.#queue[this.#next];
      if (line === undefined) break;
      if (this.#offset === 0) {
        const prefix = linePrefix(++this.#sequence, line);
        this.#response.write(prefix, 'latin1');
        size += prefix.length;
        this.#sent += prefix.length;
      }
      const part = line.body.subarray(this.#offset, this.#offset + SLICE);
      this.#response.write(part);
      size += part.length;
      this.#sent += part.length;
      this.#queued -= part.length;
      this.#offset += part.length;
      if (this.#offset < line.body.length) continue;
      this.#offset = 0;
      this.#next++;
    }
    this.#response.uncork();
    this.#socket.uncork();
  }

  #flush(): void {
    while (
      this.#next < this.#queue.length &&
      !this.#socket.writableNeedDrain &&
      !this.#socket.destroyed &&
      !this.#response.writableEnded
    )
      this.#handOver();
    if (this.#next === this.#queue.length) this.#queue = [];
    else this.#queue = this.#queue.slice(this.#next);
    this.#next = 0;
  }

  #drained(): void {
    this.#progress = this.#now();
    this.#flush();
  }

  #unsent(): number {
    return this.#queued + this.#socket.writableLength;
  }
}
