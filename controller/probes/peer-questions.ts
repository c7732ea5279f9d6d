import { randomBytes } from 'node:crypto';
import type { ProbeTarget } from '../../apis/config.ts';
import type { PeerAnswer, ProbeOutcome } from '../../apis/probes.ts';
import type { ProbeUpdate } from '../../apis/stream.ts';
import type { Clock } from '../../lib/process/clock.ts';

/** The agents that this controller serves, as far as they make probes for others. */
export interface ProberStreams {
  probers(): readonly string[];
  /** False: there is no such stream any more. */
  send(node: string, update: ProbeUpdate): boolean;
}

interface PeerQuestionsOptions {
  readonly streams: ProberStreams;
  readonly clock: Clock;
  /** Returns numbers from 0 up to 1. */
  readonly random: () => number;
}

/** Questions without an answer at the same time, to one agent and to all. */
const MOST_OF_PROBER = 8;
const MOST = 256;
/** Milliseconds that an answer may need besides the connection. */
const ON_THE_WAY = 1_000;

interface Question {
  readonly prober: string;
  readonly done: (outcome: ProbeOutcome | null) => void;
}

/** Asks agents for connections to other nodes, by their streams; they answer by requests. */
export class PeerQuestions {
  readonly #options: PeerQuestionsOptions;
  /** By id. */
  readonly #open = new Map<string, Question>();

  constructor(options: PeerQuestionsOptions) {
    this.#options = options;
  }

  /**
   * The agent to ask for a connection to `node`; null: none is here, or all are busy.
   * @param wanted absent: any other one
   */
  choose(node: string, wanted: string | undefined): string | null {
    const { streams, random } = this.#options;
    const all = streams.probers().filter((one) => one !== node && (wanted === undefined || one === wanted));
    const free = all.filter((one) => this.#openOf(one) < MOST_OF_PROBER);
    return free[Math.floor(random() * free.length)] ?? null;
  }

  /** Null: no answer. */
  ask(prober: string, target: ProbeTarget, milliseconds: number): Promise<ProbeOutcome | null> {
    const { streams, clock } = this.#options;
    if (this.#open.size >= MOST) return Promise.resolve(null);
    const { promise, resolve } = Promise.withResolvers<ProbeOutcome | null>();
    const id = randomBytes(16).toString('hex');
    const done = (outcome: ProbeOutcome | null): void => {
      this.#open.delete(id);
      cancel();
      resolve(outcome);
    };
    const cancel = clock.after(milliseconds + ON_THE_WAY, () => done(null));
    this.#open.set(id, { prober, done });
    if (!streams.send(prober, { type: 'probe', id, target, milliseconds })) done(null);
    return promise;
  }

  /** False: this controller did not ask this agent, or no longer waits. */
  answered(prober: string, { id, error, source }: PeerAnswer): boolean {
    const question = this.#open.get(id);
    if (question?.prober !== prober) return false;
    question.done({ error, source });
    return true;
  }

  #openOf(prober: string): number {
    return this.#open.values().reduce((count, one) => count + (one.prober === prober ? 1 : 0), 0);
  }
}
