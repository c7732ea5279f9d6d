import { randomBytes } from 'node:crypto';
import { METRICS_PATIENCE, type MetricsAnswer, type Scraped } from '../../apis/node-metrics.ts';
import type { MetricsUpdate } from '../../apis/stream.ts';
import type { Clock } from '../../lib/process/clock.ts';

/** The metrics of the nodes' agents. */
export interface NodeMetricsService {
  take(node: string): Promise<Scraped>;
  /** Null: the agent has no stream here that asks for it. */
  takeHere(node: string): Promise<Scraped | null>;
  answered(node: string, answer: MetricsAnswer): void;
  answeredHere(node: string, answer: MetricsAnswer): void;
}

/** The other controllers. */
export interface MetricsElsewhere {
  /** Null: none of them has the agent's stream. */
  ask(node: string): Promise<Scraped | null>;
  answered(node: string, answer: MetricsAnswer): void;
}

interface NodeMetricsOptions {
  /** By the agent's stream; false: there is none here. */
  readonly send: (node: string, update: MetricsUpdate) => boolean;
  readonly elsewhere: MetricsElsewhere;
  readonly clock: Clock;
}

interface Question {
  readonly id: string;
  readonly scraped: Promise<Scraped>;
  readonly done: (scraped: Scraped) => void;
}

/**
 * Asks agents for their metrics by their streams; they answer by requests, which any replica may
 * receive. Each agent has one question at a time, whatever the number of scrapers.
 */
export class NodeMetrics implements NodeMetricsService {
  readonly #options: NodeMetricsOptions;
  /** By node. */
  readonly #open = new Map<string, Question>();

  constructor(options: NodeMetricsOptions) {
    this.#options = options;
  }

  async take(node: string): Promise<Scraped> {
    const scraped = (await this.takeHere(node)) ?? (await this.#options.elsewhere.ask(node));
    return scraped ?? { problem: `no agent of ${node} that has metrics is connected to a controller` };
  }

  async takeHere(node: string): Promise<Scraped | null> {
    const open = this.#open.get(node) ?? this.#ask(node);
    return open === null ? null : await open.scraped;
  }

  answered(node: string, answer: MetricsAnswer): void {
    if (!this.#take(node, answer)) this.#options.elsewhere.answered(node, answer);
  }

  answeredHere(node: string, answer: MetricsAnswer): void {
    this.#take(node, answer);
  }

  #ask(node: string): Question | null {
    const { send, clock } = this.#options;
    const id = randomBytes(16).toString('hex');
    if (!send(node, { type: 'metrics', id })) return null;
    const { promise: scraped, resolve } = Promise.withResolvers<Scraped>();
    const done = (answer: Scraped): void => {
      this.#open.delete(node);
      cancel();
      resolve(answer);
    };
    const problem = `the agent of ${node} did not answer in ${METRICS_PATIENCE.agent / 1000} s`;
    const cancel = clock.after(METRICS_PATIENCE.agent, () => done({ problem }));
    const question = { id, scraped, done };
    this.#open.set(node, question);
    return question;
  }

  /** False: this controller did not ask this agent, or no longer waits. */
  #take(node: string, { id, ...scraped }: MetricsAnswer): boolean {
    const question = this.#open.get(node);
    if (question?.id !== id) return false;
    question.done(scraped);
    return true;
  }
}
