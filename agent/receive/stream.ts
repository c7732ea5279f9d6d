import type { IncomingMessage } from 'node:http';
import { NODE_VIEWS_PATH, type StreamMessage } from '../../apis/stream.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { lines } from '../../lib/process/lines.ts';
import { type ControllerClient, ControllerError } from './controller-client.ts';
import { type Fold, FoldError, type Folded } from './fold.ts';

export interface StreamEvents {
  /** The controller answered; nothing is known yet. */
  connected(remote: Remote): void;
  /** A bookmark: what to enforce. Must not throw. */
  folded(folded: Folded): void;
  /** The connection ended, or there was none; the next try is in `retryIn` milliseconds. */
  disconnected(error: Error, retryIn: number): void;
  /**
   * In place of `disconnected`: the controller answers, and not even its whole view can be folded.
   */
  unfollowable(error: FoldError, retryIn: number): void;
}

/** The other end of the connection, as this machine sees it. */
export interface Remote {
  readonly address: string;
  readonly port: number;
}

export interface StreamParts {
  readonly node: string;
  readonly client: ControllerClient;
  readonly fold: Fold;
  readonly events: StreamEvents;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly random: () => number;
}

/**
 * Milliseconds; each wait is a random half to whole of its turn, so that a thousand agents don't
 * come back at once.
 */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** The longest that a controller may ask for (milliseconds). */
const LONGEST_ASKED = 30_000;
/** A bookmark comes every 30 s: three that are missing, and some patience. */
const SILENCE = 95_000;
/** Bytes. 100,000 IPv6 addresses in a set are less than 5 MB. */
const LONGEST_LINE = 64 * 1024 * 1024;
/** Bytes from one bookmark to the next: all of it is kept in memory. */
const LONGEST_BATCH = 512 * 1024 * 1024;

export interface Following {
  /**
   * The way to the controller may be free now: a try that has no answer yet is given up, and the
   * next made at once.
   */
  retryNow(): void;
  close(): Promise<void>;
}

/**
 * Follows the view of a node at the controller: connects, folds what comes, and connects again,
 * from where it was, until closed. Whatever goes wrong, what was folded before stays.
 */
export function followController(parts: StreamParts): Following {
  const { node, client, fold, events, clock, random } = parts;
  const closing = new AbortController();
  /** Of the try without an answer, or the wait for the next; null: a controller answers. */
  let unanswered: AbortController | null = null;
  let revision: string | null = null;
  const waits = new BackOff({ first: FIRST_WAIT, longest: LONGEST_WAIT, random });
  /** Messages were lost, and no bookmark was reached since. */
  let hasLost = false;

  /** Until the connection ends; throws why. */
  async function connection(): Promise<never> {
    const path = viewPath(node, revision);
    unanswered = new AbortController();
    const signal = AbortSignal.any([closing.signal, unanswered.signal]);
    const response = await client.request({ method: 'GET', path, signal, isStream: true });
    unanswered = null;
    events.connected(remoteOf(response));
    fold.begin(revision !== null);
    try {
      await read(response);
    } catch (error) {
      // node:http says no more of it than "aborted".
      if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error;
      throw new Error('the connection to the controller broke', { cause: error });
    }
    throw new Error('the controller ended the connection');
  }

  async function read(response: IncomingMessage): Promise<void> {
    let batch = 0;
    let isSilent: () => void = () => {};
    const sign = (): void => {
      isSilent();
      isSilent = clock.after(SILENCE, () =>
        response.destroy(new Error(`nothing was heard of the controller for ${SILENCE / 1000} s`)),
      );
    };
    const take = lines(LONGEST_LINE, (line) => {
      sign();
      const folded = fold.take(parse(line));
      if (folded === null) return;
      batch = 0;
      ({ revision } = folded);
      waits.reset();
      hasLost = false;
      events.folded(folded);
    });
    sign();
    try {
      for await (const piece of response) {
        batch += piece.length;
        if (batch > LONGEST_BATCH + piece.length) throw new Error(`${batch} bytes without a bookmark`);
        take(piece);
      }
    } finally {
      isSilent();
      response.destroy();
    }
  }

  /** Of a whole view; one that something of was lost on its way is asked for again first. */
  function isUnfollowable(error: unknown): error is FoldError {
    return error instanceof FoldError && revision === null && (!error.resumable || hasLost);
  }

  /** How long to wait after an error (milliseconds). */
  function waitAfter(error: unknown): number {
    if (error instanceof FoldError) {
      // What can't be made up for by going on from the bookmark needs a whole view.
      if (!error.resumable || hasLost) revision = null;
      hasLost = error.resumable;
    }
    if (error instanceof ControllerError && error.hasNewToken) return 0;
    const wait = waits.next();
    const asked = error instanceof ControllerError ? (error.retryAfter ?? 0) : 0;
    return Math.max(wait, Math.min(asked, LONGEST_ASKED) * (1 + random() / 2));
  }

  async function run(): Promise<void> {
    while (!closing.signal.aborted) {
      try {
        await connection();
      } catch (error) {
        if (closing.signal.aborted) return;
        if (unanswered?.signal.aborted) continue;
        const isOfView = isUnfollowable(error);
        const retryIn = waitAfter(error);
        if (isOfView) events.unfollowable(error, retryIn);
        else events.disconnected(error instanceof Error ? error : new Error(String(error)), retryIn);
        await pause(retryIn);
      }
    }
  }

  function pause(milliseconds: number): Promise<void> {
    unanswered = new AbortController();
    const { signal } = unanswered;
    return new Promise((resolve) => {
      const end = (): void => {
        cancel();
        closing.signal.removeEventListener('abort', end);
        resolve();
      };
      const cancel = clock.after(milliseconds, end);
      closing.signal.addEventListener('abort', end);
      signal.addEventListener('abort', end);
    });
  }

  const running = run();
  return {
    retryNow() {
      waits.reset();
      unanswered?.abort();
    },
    async close() {
      closing.abort();
      await running;
    },
  };
}

function viewPath(node: string, revision: string | null): string {
  const query = new URLSearchParams({
    watch: 'true',
    fieldSelector: `metadata.name=${node}`,
    allowWatchBookmarks: 'true',
    ...(revision === null ? {} : { resourceVersion: revision }),
  });
  return `${NODE_VIEWS_PATH}?${query}`;
}

function parse(line: string): StreamMessage {
  try {
    return JSON.parse(line) as StreamMessage;
  } catch (error) {
    throw new FoldError(`something of the stream was lost: a line is no JSON`, true, { cause: error });
  }
}

function remoteOf({ socket }: IncomingMessage): Remote {
  return { address: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 };
}
