import type { ServerResponse } from 'node:http';
import { type Line, linePrefix } from './line.ts';

/** Milliseconds and bytes. */
export interface StreamLimits {
  /** More than this is kept for a slow watcher only for so long as `slow` says; a whole view and 64 KiB where that is more. */
  readonly unsent: number;
  readonly slow: number;
  /** A watcher that takes no byte for so long is gone, whatever its kernel says. */
  readonly stalled: number;
}

export const STREAM_LIMITS: StreamLimits = { unsent: 4 << 20, slow: 10_000, stalled: 60_000 };

/** One watcher's answer. What waits to be sent is a list of references: lines are everybody's. */
export interface WatchStream {
  send(lines: readonly Line[]): void;
  /** Bytes that the watcher's kernel has not taken. */
  readonly unsent: number;
  /** Bytes handed to the connection so far: lines with their numbers, without HTTP's and TLS's own. */
  readonly sent: number;
  /** When a line was last sent, in the caller's milliseconds. */
  readonly lastSent: number;
  /** Whether the watcher is too slow to be kept, in words; to be asked every second or so. */
  tooSlow(): string | null;
}

/**
 * So much is handed to the connection at a time: TLS encrypts into memory of the watcher's own, and thousands of watchers may be blocked at once, in the
 * middle of an address set of megabytes.
 */
const SLICE = 32 << 10;

/** `response` has its head written, which goes out with the first lines; nobody else may write to it. */
export function watchStream(
  response: ServerResponse,
  now: () => number,
  limits: StreamLimits = STREAM_LIMITS,
): WatchStream {
  const { socket } = response;
  if (socket === null) throw new Error('the connection is gone');
  let queue: Line[] = [];
  let next = 0;
  /** Of the line that is next: bytes of its body that have been handed over. */
  let offset = 0;
  let queued = 0;
  let sequence = 0;
  let sent = 0;
  let lastSent = now();
  let progress = lastSent;
  let above: number | null = null;
  let most: number | null = null;

  /** One chunk of HTTP, one write to the connection, whatever the number of lines. */
  const handOver = (): void => {
    let size = 0;
    // The response's own cork gathers a chunk; it lets go of the socket's before it writes, so that is corked here.
    socket.cork();
    response.cork();
    while (size < SLICE) {
      const line = queue[next];
      if (line === undefined) break;
      if (offset === 0) {
        const prefix = linePrefix(++sequence, line);
        response.write(prefix, 'latin1');
        size += prefix.length;
        sent += prefix.length;
      }
      const part = line.body.subarray(offset, offset + SLICE);
      response.write(part);
      size += part.length;
      sent += part.length;
      queued -= part.length;
      offset += part.length;
      if (offset < line.body.length) continue;
      offset = 0;
      next++;
    }
    response.uncork();
    socket.uncork();
  };
  const flush = (): void => {
    while (next < queue.length && !socket.writableNeedDrain && !socket.destroyed && !response.writableEnded)
      handOver();
    if (next === queue.length) queue = [];
    else queue = queue.slice(next);
    next = 0;
  };
  const drained = (): void => {
    progress = now();
    flush();
  };
  socket.on('drain', drained);
  response.once('close', () => {
    socket.off('drain', drained);
    queue = [];
    next = 0;
    queued = 0;
  });
  const unsent = () => queued + socket.writableLength;
  return {
    send(lines) {
      if (response.writableEnded || socket.destroyed) return;
      if (unsent() === 0) progress = now();
      for (const line of lines) {
        queue.push(line);
        queued += line.body.length;
      }
      most ??= Math.max(limits.unsent, (64 << 10) + queued);
      lastSent = now();
      flush();
    },
    get unsent() {
      return unsent();
    },
    get sent() {
      return sent;
    },
    get lastSent() {
      return lastSent;
    },
    tooSlow() {
      const waiting = unsent();
      const time = now();
      above = waiting > (most ?? limits.unsent) ? (above ?? time) : null;
      if (above !== null && time - above > limits.slow)
        return `${waiting} bytes have waited for ${Math.round((time - above) / 1000)} s`;
      if (waiting > 0 && time - progress > limits.stalled)
        return `it has taken nothing for ${Math.round((time - progress) / 1000)} s`;
      return null;
    },
  };
}
