import type { Config } from '../../apis/config.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { siblingModule } from '../../lib/process/exit.ts';
import { CostQueue } from '../../lib/process/fair-queue.ts';
import type { MirroredProcess } from '../../lib/process/mirrored-process.ts';
import { type Impact, type ImpactJudgement, LARGE, type Violations } from './impact.ts';
import type { ImpactChildAnswer, ImpactChildQuestion, ImpactQuestion } from './impact-child.ts';
import { mirroredObjects, type ObjectChange } from './object-mirror.ts';

interface ImpactLimits {
  /** Milliseconds for a change, its turn included. The webhook configurations allow 5 s in all. */
  readonly change: number;
  /**
   * Milliseconds of it for the evaluation, once the process has compiled the cluster: another
   * user's change has as long after this one.
   */
  readonly evaluation: number;
  /** Milliseconds of that for the difference; while other changes wait. */
  readonly difference: number;
  readonly crowded: number;
  /** Milliseconds for the violations of all Guardrails, and for a new process to be ready. */
  readonly violations: number;
  /** Megabytes of the process's heap. */
  readonly heap: number;
}

export const IMPACT_LIMITS: ImpactLimits = {
  change: 1800,
  evaluation: 1000,
  difference: 700,
  crowded: 100,
  violations: 60_000,
  heap: 1024,
};

/** The source and user of a change. */
export interface Asker {
  /** The address of the API server that asks. */
  readonly source: string;
  /** The user whom it names; '': not readable. */
  readonly user: string;
}

/** Changes that wait, of one user, of one source and of all. */
const MOST_OF_USER = 4;
const MOST_OF_SOURCE = 32;
const MOST_WAITING = 64;

/** Milliseconds in which no change of a user is evaluated after one that ended the process. */
const PAUSE = 60_000;

/** Milliseconds beyond the limits of an evaluation until its process is ended: it has no answer. */
const GRACE = 300;

interface SourceChanges {
  /** Turns of its users. */
  readonly turns: CostQueue;
  /** The user of each change. */
  readonly users: string[];
}

/** The result was not there in time. */
export class ImpactOverrunError extends Error {
  override readonly name = 'ImpactOverrunError';
}

/** Whose turn it is with the controller's own questions; sources are addresses. */
const OWN = 'controller';
const OVER = 'the time is over, or the memory is full';

/**
 * Evaluates changes and Guardrails in a process of its own, which compiles the whole cluster. One
 * question at a time, by turns of the sources and, of one source, of its users, each with a limit
 * of time: nobody's changes delay those of others for longer than one takes, and a source that
 * names many users has one turn, too. A process that overruns a limit, or fails, is replaced with
 * the next question.
 */
export class ImpactProcess {
  readonly #limits: ImpactLimits;
  readonly #config: Config;
  readonly #objects: () => ClusterObjects | null;
  readonly #process: MirroredProcess<ClusterObjects, ImpactChildQuestion, ImpactChildAnswer>;
  readonly #turns = new CostQueue(1);
  /** Changes that wait or are evaluated, by source. */
  readonly #sources = new Map<string, SourceChanges>();
  /**
   * Users of a source whose last change ended the process, and until when that counts; one a second
   * at most.
   */
  readonly #paused = new Map<string, number>();

  /** @param objects the objects of the cluster as they are compiled now; null: not known yet */
  constructor(config: Config, objects: () => ClusterObjects | null, limits = IMPACT_LIMITS) {
    this.#limits = limits;
    this.#config = config;
    this.#objects = objects;
    this.#process = mirroredObjects({
      file: siblingModule(import.meta, 'impact-child'),
      heap: limits.heap,
      isLast: (answer) => !('judgement' in answer),
    });
  }

  /** Throws ImpactOverrunError, and other errors for internal ones. */
  async violations(): Promise<Violations> {
    const question = { ask: 'violations' } as const;
    const answers = await this.#turns.run(OWN, 0, () => this.#ask(question, this.#limits.violations));
    for (const answer of answers) if ('violations' in answer) return answer.violations;
    throw new ImpactOverrunError(OVER);
  }

  /** As `violations`. The judgement alone is an answer, too. */
  async change(change: ObjectChange, asker: Asker): Promise<Impact> {
    const { source, user } = asker;
    const own = this.#sources.get(source) ?? { turns: new CostQueue(1), users: [] };
    const ofUser = own.users.filter((other) => other === user).length;
    if (ofUser >= MOST_OF_USER || own.users.length >= MOST_OF_SOURCE || this.#count >= MOST_WAITING)
      throw new ImpactOverrunError('too many changes at once');
    const key = JSON.stringify([source, user]);
    if (performance.now() < (this.#paused.get(key) ?? 0))
      throw new ImpactOverrunError('a change of the same user ended the process less than a minute ago');
    const over = performance.now() + this.#limits.change;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new ImpactOverrunError('its turn did not come')),
      this.#limits.change,
    );
    own.users.push(user);
    this.#sources.set(source, own);
    try {
      // One change of a source waits for the turn of the source, chosen by turns of its users.
      const turn = own.turns.run(user, 0, () =>
        this.#turns.run(source, 0, () => this.#evaluate(change, key, over)),
      );
      return await Promise.race([turn, late.promise]);
    } finally {
      clearTimeout(timer);
      own.users.splice(own.users.indexOf(user), 1);
      if (own.users.length === 0) this.#sources.delete(source);
    }
  }

  /** Ends the process after the questions that were asked; the next one starts another. */
  rest(): void {
    void this.#turns.run(OWN, 0, async () => this.#process.end());
  }

  close(): void {
    this.#process.close();
  }

  /** The changes of all sources that wait or are evaluated. */
  get #count(): number {
    let count = 0;
    for (const { users } of this.#sources.values()) count += users.length;
    return count;
  }

  async #evaluate(change: ObjectChange, key: string, over: number): Promise<Impact> {
    const { evaluation, difference, crowded, violations } = this.#limits;
    // A new process compiles the whole cluster first. That does not count against the change, nor
    // against its user; a process that has the answer already gives it at once.
    const ready = await this.#ask({ ask: 'violations' }, violations);
    if (!ready.some((answer) => 'violations' in answer)) throw new ImpactOverrunError(OVER);
    const all = Math.min(evaluation, over - performance.now());
    // Nobody waits for it any more.
    if (all <= 0) throw new ImpactOverrunError('its turn did not come');
    const times = { all, difference: this.#count > 1 ? crowded : difference };
    const answers = await this.#ask({ ask: 'change', change, times }, all + GRACE);
    if (!answers.some((answer) => 'lines' in answer || 'error' in answer)) this.#pause(key);
    let judgement: ImpactJudgement | null = null;
    let lines = LARGE;
    for (const answer of answers) {
      if ('judgement' in answer) judgement = answer.judgement;
      if ('lines' in answer) lines = answer.lines;
    }
    if (judgement === null) throw new ImpactOverrunError(OVER);
    return { ...judgement, lines };
  }

  #pause(key: string): void {
    const now = performance.now();
    for (const [other, until] of this.#paused) if (until <= now) this.#paused.delete(other);
    this.#paused.set(key, now + PAUSE);
  }

  /** The answers so far if the process ends, or has no time left. */
  async #ask(asked: ImpactQuestion, time: number): Promise<readonly ImpactChildAnswer[]> {
    const state = this.#objects();
    if (state === null) throw new Error('the objects of the cluster are not known');
    const answers = await this.#process.ask({
      state,
      question: { ...asked, config: this.#config },
      time,
    });
    for (const answer of answers) if ('error' in answer && !answer.isLate) throw new Error(answer.error);
    return answers;
  }
}
