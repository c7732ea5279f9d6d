import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { siblingModule } from '../../lib/process/child-module.ts';
import { CostQueue } from '../../lib/process/cost-queue.ts';
import type { AdmissionStep, AdmissionWorld } from './admission.ts';
import type { ChildAnswer, ChildMessage } from './admission-child.ts';
import type { BodyAdmission } from './admit-body.ts';
import { WorldSender } from './world-mirror.ts';

/** The body was not checked within the time or memory that one has. */
export class AdmissionOverrunError extends Error {
  override readonly name = 'AdmissionOverrunError';
}

export interface BodyRequest {
  /** In pieces, as received. */
  readonly body: readonly Uint8Array[];
  readonly step: AdmissionStep;
  readonly world: AdmissionWorld;
  /** The address that sent it. */
  readonly source: string;
  /** Whether somebody still waits for the answer when its turn comes. */
  readonly isWanted: () => boolean;
}

export interface AdmissionLimits {
  /** Milliseconds for one body. The webhook configurations allow 5 s in all. */
  readonly time: number;
  /** Megabytes of the process's heap. */
  readonly heap: number;
}

export const ADMISSION_LIMITS: AdmissionLimits = { time: 3000, heap: 256 };

/** Reading `{}` and answering takes as long as so many bytes of a policy. */
const BODY_COST = 4096;

interface Running {
  readonly child: ChildProcess;
  /** Its first message; false: it ended before. */
  readonly ready: Promise<boolean>;
  readonly sender: WorldSender;
}

/**
 * Checks bodies in a process of its own, so that no body delays the thread that renews the Lease
 * and serves agents, or fills its memory: a worker thread whose heap is full ends the whole process
 * (Node.js 24). One body at a time, by turns of their sources and in proportion to their lengths. A
 * process that overruns a limit, or fails, is replaced.
 */
export class AdmissionProcess {
  readonly #limits: AdmissionLimits;
  readonly #queue = new CostQueue(BODY_COST);
  #running: Running | null = null;
  #isClosed = false;

  constructor(limits: AdmissionLimits = ADMISSION_LIMITS) {
    this.#limits = limits;
  }

  /** Undefined: none is running. */
  get pid(): number | undefined {
    return this.#running?.child.pid;
  }

  /** Starts the process, which the first body needs; later ones start one that is missing. */
  start(): void {
    this.#process();
  }

  /**
   * Null if the body is not an AdmissionReview, or nobody waits for the answer. Throws
   * AdmissionOverrunError, and other errors for internal ones. Afterwards the body is not read.
   */
  admit(request: BodyRequest): Promise<BodyAdmission | null> {
    return this.#queue.run(request.source, lengthOf(request.body), () => this.#admit(request));
  }

  close(): void {
    this.#isClosed = true;
    this.#running?.child.kill('SIGKILL');
  }

  async #admit(request: BodyRequest): Promise<BodyAdmission | null> {
    if (!request.isWanted()) return null;
    if (this.#isClosed) throw new Error('the webhook is closed');
    const running = this.#process();
    const { child } = running;
    // Only a request in progress keeps this process running.
    child.channel?.ref();
    const answer = await this.#answerOf(running, request);
    child.channel?.unref();
    if (answer === null) {
      this.#forget(child);
      throw new AdmissionOverrunError('the object cannot be checked in time; split it');
    }
    if ('error' in answer) throw new Error(answer.error);
    return answer.admission;
  }

  /** Null if the process has ended. */
  async #answerOf(
    { child, ready, sender }: Running,
    { world, body, step }: BodyRequest,
  ): Promise<ChildAnswer | null> {
    const send = (message: ChildMessage): void => void (child.connected && child.send(message));
    if (!(await ready)) return null;
    for (const update of sender.updates(world)) {
      send({ update });
      if (update.state === null) await nextTurn();
    }
    const timer = setTimeout(() => child.kill('SIGKILL'), this.#limits.time);
    send({ length: lengthOf(body), step });
    const [answer] = await Promise.all([messageOf(child), write(child.stdin, body)]);
    clearTimeout(timer);
    return answer as ChildAnswer | null;
  }

  #process(): Running {
    if (this.#running !== null) return this.#running;
    const child = fork(siblingModule(import.meta, 'admission-child'), {
      execArgv: [`--max-old-space-size=${this.#limits.heap}`],
      serialization: 'advanced',
      stdio: ['pipe', 'inherit', 'inherit', 'ipc'],
    });
    // A caller that waits for its message learns of the end by `disconnect`.
    const forget = (): void => this.#forget(child);
    child.once('exit', forget).on('error', forget);
    child.stdin?.on('error', forget);
    child.unref();
    child.channel?.unref();
    const ready = messageOf(child).then((message) => message !== null);
    this.#running = { child, ready, sender: new WorldSender() };
    return this.#running;
  }

  #forget(child: ChildProcess): void {
    if (this.#running?.child === child) this.#running = null;
  }
}

function lengthOf(pieces: BodyRequest['body']): number {
  return pieces.reduce((sum, { length }) => sum + length, 0);
}

/** Resolves when the kernel has the pieces, or the process has ended. */
async function write(stdin: ChildProcess['stdin'], pieces: BodyRequest['body']): Promise<void> {
  if (stdin === null) return;
  stdin.cork();
  const written = pieces.map((piece) => new Promise<void>((resolve) => stdin.write(piece, () => resolve())));
  stdin.uncork();
  await Promise.all(written);
}

/** The next message; null: the process has ended. */
async function messageOf(child: ChildProcess): Promise<unknown> {
  if (!child.connected) return null;
  const over = new AbortController();
  try {
    const ended = once(child, 'disconnect', over).then(() => [null]);
    const [message] = await Promise.race([once(child, 'message', over), ended]);
    return message;
  } catch {
    // It could not be started or reached.
    return null;
  } finally {
    over.abort();
  }
}
