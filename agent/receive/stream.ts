import type { IncomingMessage } from 'node:http';
import { MOST_HELD } from '../../apis/held-view.ts';
import {
  NODE_VIEWS_PATH,
  type ProbeUpdate,
  type QuestionUpdate,
  type StreamMessage,
} from '../../apis/stream.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import { LineSplitter } from '../../lib/process/body.ts';
import { type Clock, pause } from '../../lib/process/clock.ts';
import { toError } from '../../lib/sharing/error.ts';
import { type ControllerClient, ControllerError } from './controller-client.ts';
import { type Fold, FoldError, type Folded } from './fold.ts';

export interface StreamEvents {
  /** The controller answered; no message has been read yet. */
  connected(remote: Remote): void;
  /** A bookmark was reached, with the state to enforce. Must not throw. */
  folded(folded: Folded): void;
  /** Another node's guarded apply asks for a connection to it. */
  probe(update: ProbeUpdate): void;
  /** Somebody asks for what only this node knows. */
  question(update: QuestionUpdate): void;
  /**
   * The connection ended or could not be made; the next attempt follows in `retryIn` milliseconds.
   */
  disconnected(error: Error, retryIn: number): void;
  /**
   * Called instead of `disconnected`: the controller answers, but even its whole view can't be
   * folded.
   */
  unfollowable(error: FoldError, retryIn: number): void;
}

/** The remote end of the connection, as the local socket reports it. */
interface Remote {
  readonly address: string;
  readonly port: number;
}

interface ControllerStreamOptions {
  readonly node: string;
  readonly client: ControllerClient;
  readonly fold: Fold;
  readonly events: StreamEvents;
  readonly clock: Clock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  /** Whether to ask for the messages of egress gateways; absent: no. */
  readonly egress?: boolean;
}

/**
 * Back-off (milliseconds); each wait is a random half to whole of it, so that a thousand agents
 * don't reconnect at the same time.
 */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** The longest wait that a controller may ask for with Retry-After (milliseconds). */
const LONGEST_ASKED = 30_000;
/**
 * Time without a message after which the connection is closed (milliseconds). A bookmark comes
 * every 30 s: three missing ones, and a margin.
 */
const SILENCE = 95_000;
/** Size limit of a line (bytes). 100,000 IPv6 addresses in a set take less than 5 MB. */
const LONGEST_LINE = 64 * 1024 * 1024;
/** Size limit of the messages between two bookmarks (bytes): all of them are kept in memory. */
const LONGEST_BATCH = 512 * 1024 * 1024;

/**
 * Time without a connection after which an older state than that of the last controller is accepted
 * too (milliseconds): after a restore of etcd there may never be a newer one.
 */
const LONGEST_BEHIND = 30_000;
const METHOD_NOT_ALLOWED = 405;

/**
 * Watches the controller's view of a node: connects, folds the messages, and reconnects from the
 * last bookmark, until closed. After any failure the last folded state stays.
 */
export class ControllerStream {
  readonly #options: ControllerStreamOptions;
  readonly #closing = new AbortController();
  /**
   * Aborts the attempt that has no answer yet, or the wait for the next one; null: a controller
   * answers.
   */
  #unanswered: AbortController | null = null;
  #revision: string | null = null;
  /** The time since when no controller serves this agent; null: one does. */
  #unservedSince: number | null = null;
  readonly #waits: BackOff;
  /** Messages were lost, and no bookmark was reached since. */
  #hasLost = false;
  readonly #running: Promise<void>;

  constructor(options: ControllerStreamOptions) {
    this.#options = options;
    this.#waits = new BackOff({ first: FIRST_WAIT, longest: LONGEST_WAIT, random: options.random });
    this.#running = this.#run();
  }

  /**
   * Called when the path to the controller may be free: an attempt without an answer is given up,
   * and the next made at once.
   */
  retryNow(): void {
    this.#waits.reset();
    this.#unanswered?.abort();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  /** Runs one connection until it ends; always throws the reason. */
  async #connection(): Promise<never> {
    const { fold, events } = this.#options;
    this.#unanswered = new AbortController();
    const signal = AbortSignal.any([this.#closing.signal, this.#unanswered.signal]);
    const response = await this.#watch(signal);
    this.#unanswered = null;
    this.#unservedSince = null;
    events.connected(remoteOf(response));
    fold.begin(this.#revision !== null);
    try {
      await this.#read(response);
    } catch (error) {
      // For this error node:http gives no more detail than "aborted".
      if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error;
      throw new Error('the connection to the controller was reset', { cause: error });
    }
    throw new Error('the controller closed the connection');
  }

  /**
   * Sends the held view with the revision that it resumes from: a controller that doesn't know the
   * revision answers with the differences. One that is older than this agent refuses that.
   */
  async #watch(signal: AbortSignal): Promise<IncomingMessage> {
    const { node, client, fold, clock, egress = false } = this.#options;
    this.#unservedSince ??= clock.now();
    const isLong = clock.now() - this.#unservedSince > LONGEST_BEHIND;
    const features = [...(egress ? ['egress'] : []), 'probes', 'questions'];
    const path = viewPath(node, { revision: this.#revision, anyPosition: isLong, features });
    const held = this.#revision === null ? null : fold.current();
    if (held !== null && Buffer.byteLength(JSON.stringify(held)) <= MOST_HELD) {
      try {
        return await client.request({ method: 'POST', path, body: held, signal, isStream: true });
      } catch (error) {
        if (!(error instanceof ControllerError) || error.status !== METHOD_NOT_ALLOWED) throw error;
      }
    }
    return await client.request({ method: 'GET', path, signal, isStream: true });
  }

  async #read(response: IncomingMessage): Promise<void> {
    const { fold, events, clock } = this.#options;
    let batch = 0;
    let isSilent: () => void = () => {};
    const sign = (): void => {
      isSilent();
      isSilent = clock.after(SILENCE, () =>
        response.destroy(new Error(`the controller sent nothing for ${SILENCE / 1000} s`)),
      );
    };
    const splitter = new LineSplitter(LONGEST_LINE);
    const take = (line: string): void => {
      sign();
      const message = parse(line);
      const folded = fold.receive(message);
      if (message.type === 'probe') events.probe(message);
      if (message.type === 'question') events.question(message);
      if (folded === null) return;
      batch = 0;
      this.#revision = folded.revision;
      this.#waits.reset();
      this.#hasLost = false;
      events.folded(folded);
    };
    sign();
    try {
      for await (const piece of response) {
        batch += piece.length;
        if (batch > LONGEST_BATCH + piece.length) throw new Error(`no bookmark in ${batch} bytes`);
        for (const line of splitter.push(piece)) take(line);
      }
    } finally {
      isSilent();
      response.destroy();
    }
  }

  /**
   * Whether a whole view can't be folded. If messages of it were lost, it is requested once more
   * first.
   */
  #isUnfollowable(error: unknown): error is FoldError {
    return error instanceof FoldError && this.#revision === null && (!error.resumable || this.#hasLost);
  }

  /** The wait after an error (milliseconds). */
  #waitAfter(error: unknown): number {
    if (error instanceof FoldError) {
      // An error that resuming from the bookmark can't repair needs a whole view.
      if (!error.resumable || this.#hasLost) this.#revision = null;
      this.#hasLost = error.resumable;
    }
    if (error instanceof ControllerError && error.hasNewToken) return 0;
    const wait = this.#waits.next();
    const asked = error instanceof ControllerError ? (error.retryAfter ?? 0) : 0;
    return Math.max(wait, Math.min(asked, LONGEST_ASKED) * (1 + this.#options.random() / 2));
  }

  async #run(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      try {
        await this.#connection();
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        if (this.#unanswered?.signal.aborted) continue;
        const isOfView = this.#isUnfollowable(error);
        const retryIn = this.#waitAfter(error);
        const { events } = this.#options;
        if (isOfView) events.unfollowable(error, retryIn);
        else events.disconnected(toError(error), retryIn);
        await this.#waitToRetry(retryIn);
      }
    }
  }

  #waitToRetry(milliseconds: number): Promise<void> {
    this.#unanswered = new AbortController();
    return pause(
      this.#options.clock,
      milliseconds,
      AbortSignal.any([this.#closing.signal, this.#unanswered.signal]),
    );
  }
}

function viewPath(
  node: string,
  {
    revision,
    anyPosition,
    features,
  }: {
    readonly revision: string | null;
    readonly anyPosition: boolean;
    readonly features: readonly string[];
  },
): string {
  const query = new URLSearchParams({
    watch: 'true',
    fieldSelector: `metadata.name=${node}`,
    allowWatchBookmarks: 'true',
    ...(revision === null ? {} : { resourceVersion: revision }),
    ...(anyPosition ? { anyPosition: 'true' } : {}),
    features: features.join(','),
  });
  return `${NODE_VIEWS_PATH}?${query}`;
}

function parse(line: string): StreamMessage {
  try {
    return JSON.parse(line) as StreamMessage;
  } catch (error) {
    throw new FoldError('the stream is incomplete: a line is not valid JSON', true, { cause: error });
  }
}

function remoteOf({ socket }: IncomingMessage): Remote {
  return { address: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 };
}
