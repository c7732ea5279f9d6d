import { siblingModule } from '../../lib/process/exit.ts';
import { CostQueue } from '../../lib/process/fair-queue.ts';
import { MirroredProcess } from '../../lib/process/mirrored-process.ts';
import { rulesOf } from '../impact/object-mirror.ts';
import type { AdmissionStep, AdmissionWorld } from './admission.ts';
import type { AdmissionChildAnswer, AdmissionChildQuestion } from './admission-child.ts';
import type { BodyAdmission } from './admit-body.ts';
import { worldChanges } from './world-mirror.ts';

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

interface AdmissionLimits {
  /** Milliseconds for one body. The webhook configurations allow 5 s in all. */
  readonly time: number;
  /** Megabytes of the process's heap. */
  readonly heap: number;
}

export const ADMISSION_LIMITS: AdmissionLimits = { time: 3000, heap: 256 };

/** Reading `{}` and answering takes as long as so many bytes of a policy. */
const BODY_COST = 4096;

/**
 * Checks bodies in a process of its own, so that no body delays the thread that renews the Lease
 * and serves agents, or fills its memory. One body at a time, by turns of their sources and in
 * proportion to their lengths. A process that overruns a limit, or fails, is replaced.
 */
export class AdmissionProcess {
  readonly #limits: AdmissionLimits;
  readonly #queue = new CostQueue(BODY_COST);
  readonly #process: MirroredProcess<AdmissionWorld, AdmissionChildQuestion, AdmissionChildAnswer>;

  constructor(limits: AdmissionLimits = ADMISSION_LIMITS) {
    this.#limits = limits;
    const file = siblingModule(import.meta, 'admission-child');
    this.#process = new MirroredProcess({
      file,
      heap: limits.heap,
      changes: worldChanges,
      costOf: rulesOf,
    });
  }

  /** Undefined: none is running. */
  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Starts the process, which the first body needs; later ones start one that is missing. */
  start(): void {
    this.#process.start();
  }

  /**
   * Null if the body is not an AdmissionReview, or nobody waits for the answer. Throws
   * AdmissionOverrunError, and other errors for internal ones. Afterwards the body is not read.
   */
  admit(request: BodyRequest): Promise<BodyAdmission | null> {
    const length = request.body.reduce((sum, piece) => sum + piece.length, 0);
    return this.#queue.run(request.source, length, () => this.#admit(request, length));
  }

  close(): void {
    this.#process.close();
  }

  async #admit(request: BodyRequest, length: number): Promise<BodyAdmission | null> {
    const { body: bytes, step, world: state, isWanted } = request;
    if (!isWanted()) return null;
    const { objects, ...settings } = state;
    const world = objects === null ? { ...settings, objects } : settings;
    const question = { length, step, world };
    const [answer] = await this.#process.ask({ state, question, bytes, time: this.#limits.time });
    if (answer === undefined)
      throw new AdmissionOverrunError('the object cannot be checked in time; split it');
    if ('error' in answer) throw new Error(answer.error);
    return answer.admission;
  }
}
