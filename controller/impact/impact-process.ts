import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Config } from '../../apis/config.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import type { ObjectChange } from './changed-objects.ts';
import type { Impact, Violations } from './impact.ts';
import type { ChildAnswer, ChildMessage } from './impact-child.ts';
import { MirrorSender } from './object-mirror.ts';

export interface ImpactLimits {
  /** Milliseconds for a change, its turn included. The webhook configurations allow 5 s in all. */
  readonly change: number;
  /** Milliseconds of it for the difference. */
  readonly difference: number;
  /** Milliseconds for the violations of all Guardrails. */
  readonly violations: number;
  /** Megabytes of the process's heap. */
  readonly heap: number;
}

export const IMPACT_LIMITS: ImpactLimits = { change: 1800, difference: 700, violations: 60_000, heap: 1024 };

/** Changes that wait for their turn; clients of the webhook are not authenticated. */
const MOST_WAITING = 8;

/** The result was not there in time. */
export class ImpactOverrunError extends Error {
  override readonly name = 'ImpactOverrunError';
}

interface Running {
  readonly child: ChildProcess;
  readonly sender: MirrorSender;
}

/**
 * Evaluates changes and Guardrails in a process of its own, which compiles the whole cluster. One
 * question at a time. A process that overruns a limit, or fails, is replaced with the next
 * question.
 */
export class ImpactProcess {
  readonly #config: Config;
  readonly #objects: () => ClusterObjects | null;
  readonly #limits: ImpactLimits;
  #running: Running | null = null;
  #turns: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #isClosed = false;

  /** @param objects the objects of the cluster as they are compiled now; null: not known yet */
  constructor(config: Config, objects: () => ClusterObjects | null, limits = IMPACT_LIMITS) {
    this.#config = config;
    this.#objects = objects;
    this.#limits = limits;
  }

  /** Throws ImpactOverrunError, and other errors for internal ones. */
  async violations(): Promise<Violations> {
    const question = { ask: 'violations' } as const;
    const answer = await this.#inTurn(() => this.#ask(question, this.#limits.violations));
    if (!('violations' in answer)) throw new Error('another question was answered');
    return answer.violations;
  }

  /** As `violations`. */
  async change(change: ObjectChange): Promise<Impact> {
    if (this.#waiting >= MOST_WAITING) throw new ImpactOverrunError('too many changes at once');
    const { change: most, difference: time } = this.#limits;
    const over = performance.now() + most;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new ImpactOverrunError('its turn did not come')), most);
    this.#waiting++;
    try {
      const turn = this.#inTurn(async () => {
        const left = over - performance.now();
        // Nobody waits for it any more.
        if (left <= 0) throw new ImpactOverrunError('its turn did not come');
        return await this.#ask({ ask: 'change', change, time }, left);
      });
      const answer = await Promise.race([turn, late.promise]);
      if (!('impact' in answer)) throw new Error('another question was answered');
      return answer.impact;
    } finally {
      this.#waiting--;
      clearTimeout(timer);
    }
  }

  /** Ends the process after the questions that were asked; the next one starts another. */
  rest(): void {
    void this.#inTurn(async () => {
      this.#running?.child.kill('SIGKILL');
      this.#running = null;
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#running?.child.kill('SIGKILL');
  }

  #inTurn<T>(ask: () => Promise<T>): Promise<T> {
    const turn = this.#turns.then(ask);
    this.#turns = turn.catch(() => {});
    return turn;
  }

  async #ask(
    question: ChildMessage,
    milliseconds: number,
  ): Promise<Exclude<ChildAnswer, { readonly error: string }>> {
    const objects = this.#objects();
    if (this.#isClosed || objects === null) throw new Error('the objects of the cluster are not known');
    const { child, sender } = this.#process();
    const timer = setTimeout(() => child.kill('SIGKILL'), milliseconds);
    // Only a question in progress keeps this process running.
    child.channel?.ref();
    try {
      for (const update of sender.updates(objects)) {
        send(child, { update });
        await nextTurn();
      }
      const answered = answerOf(child);
      send(child, question);
      const answer = await answered;
      if (answer === null) throw new ImpactOverrunError('the time is over, or the memory is full');
      if ('error' in answer) throw new Error(answer.error);
      return answer;
    } finally {
      clearTimeout(timer);
      child.channel?.unref();
    }
  }

  #process(): Running {
    if (this.#running?.child.connected === true) return this.#running;
    const child = fork(join(import.meta.dirname, 'impact-child.ts'), {
      execArgv: [`--max-old-space-size=${this.#limits.heap}`],
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const forget = (): void => {
      if (this.#running?.child === child) this.#running = null;
    };
    child.once('exit', forget).on('error', forget);
    child.unref();
    child.channel?.unref();
    send(child, { config: this.#config });
    this.#running = { child, sender: new MirrorSender() };
    return this.#running;
  }
}

function send(child: ChildProcess, message: ChildMessage): void {
  if (child.connected) child.send(message);
}

/** Null: the process has ended. */
async function answerOf(child: ChildProcess): Promise<ChildAnswer | null> {
  if (!child.connected) return null;
  const over = new AbortController();
  try {
    const ended = once(child, 'disconnect', over).then(() => [null]);
    const [message] = await Promise.race([once(child, 'message', over), ended]);
    return message as ChildAnswer | null;
  } catch {
    // It could not be started or reached.
    return null;
  } finally {
    over.abort();
  }
}
