import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { CostQueue } from '../../lib/process/cost-queue.ts';
import type { AdmissionStep, AdmissionWorld } from './admission.ts';
import type { WorkerAnswer, WorkerMessage } from './admission-worker.ts';
import type { BodyAdmission } from './admit-body.ts';
import { WorldSender } from './world-mirror.ts';

/** The body was not checked within the time or memory that one has. */
export class AdmissionOverrunError extends Error {
  override readonly name = 'AdmissionOverrunError';
}

export interface BodyRequest {
  readonly body: Uint8Array;
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
  /** Megabytes of the worker's heap. */
  readonly heap: number;
}

export const ADMISSION_LIMITS: AdmissionLimits = { time: 3000, heap: 384 };

interface Running {
  readonly worker: Worker;
  /** Its first message. */
  readonly ready: Promise<unknown>;
  readonly sender: WorldSender;
}

/**
 * Reads and checks bodies in a thread of its own, so that no body delays the thread that renews the
 * Lease and serves agents. One body at a time, by turns of their sources and in proportion to their
 * lengths. A thread that overruns a limit, or fails, is replaced.
 */
export class AdmissionThread {
  readonly #limits: AdmissionLimits;
  readonly #queue = new CostQueue();
  #running: Running | null = null;
  #isClosed = false;

  constructor(limits: AdmissionLimits = ADMISSION_LIMITS) {
    this.#limits = limits;
  }

  /** Starts the thread, which the first body needs; later ones start one that is missing. */
  start(): void {
    this.#thread();
  }

  /**
   * Null if the body is not an AdmissionReview, or nobody waits for the answer. Throws AdmissionOverrunError, and other errors for
   * internal ones.
   */
  admit(request: BodyRequest): Promise<BodyAdmission | null> {
    return this.#queue.run(request.source, request.body.length, () => this.#admit(request));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#running?.worker.terminate();
  }

  async #admit({ body, step, world, isWanted }: BodyRequest): Promise<BodyAdmission | null> {
    if (!isWanted()) return null;
    if (this.#isClosed) throw new Error('the webhook is closed');
    const { worker, sender, ready } = this.#thread();
    await ready;
    const send = (message: WorkerMessage): void => worker.postMessage(message);
    for (const update of sender.updates(world)) {
      send({ update });
      if (update.state === null) await nextTurn();
    }
    const overrun = new AbortController();
    const timer = setTimeout(() => overrun.abort(), this.#limits.time);
    try {
      send({ body, step });
      // Rejects on an error of the worker too.
      const [answer] = (await once(worker, 'message', overrun)) as [WorkerAnswer];
      if ('error' in answer) throw new Error(answer.error);
      return answer.admission;
    } catch (error) {
      if (!overrun.signal.aborted && !isOutOfMemory(error)) throw error;
      throw new AdmissionOverrunError('the object cannot be checked in time; split it', { cause: error });
    } finally {
      clearTimeout(timer);
      if (overrun.signal.aborted) {
        this.#forget(worker);
        await worker.terminate();
      }
    }
  }

  #thread(): Running {
    if (this.#running !== null) return this.#running;
    const worker = new Worker(new URL('./admission-worker.ts', import.meta.url), {
      name: 'admission',
      resourceLimits: { maxOldGenerationSizeMb: this.#limits.heap },
    });
    worker.unref();
    const ready = once(worker, 'message');
    ready.catch(() => {});
    // The request in progress gets the error; without a listener it would end the process.
    worker.on('error', () => this.#forget(worker));
    worker.once('exit', () => this.#forget(worker));
    this.#running = { worker, ready, sender: new WorldSender() };
    return this.#running;
  }

  #forget(worker: Worker): void {
    if (this.#running?.worker === worker) this.#running = null;
  }
}

function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
}
