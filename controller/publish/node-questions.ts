import { randomBytes } from 'node:crypto';
import {
  type NodeAnswer,
  type NodeQuestion,
  QUESTION_PATIENCE,
  type QuestionAnswer,
} from '../../apis/node-question.ts';
import type { QuestionUpdate } from '../../apis/stream.ts';
import type { Clock } from '../../lib/process/clock.ts';

/** Questions that only the nodes can answer. */
export interface NodeQuestionService {
  ask(node: string, question: NodeQuestion): Promise<QuestionAnswer>;
  /** Null: the agent has no stream here. */
  askHere(node: string, question: NodeQuestion): Promise<QuestionAnswer | null>;
  answered(node: string, answer: NodeAnswer): void;
  answeredHere(node: string, answer: NodeAnswer): void;
}

/** The other controllers. */
export interface QuestionsElsewhere {
  /** Null: none of them has the agent's stream. */
  ask(node: string, question: NodeQuestion): Promise<QuestionAnswer | null>;
  answered(node: string, answer: NodeAnswer): void;
}

interface NodeQuestionsOptions {
  /** By the agent's stream; false: there is none here. */
  readonly send: (node: string, update: QuestionUpdate) => boolean;
  readonly elsewhere: QuestionsElsewhere;
  readonly clock: Clock;
}

interface Open {
  readonly node: string;
  readonly answered: Promise<QuestionAnswer>;
  readonly done: (answered: QuestionAnswer) => void;
}

/** Questions to one agent at the same time. */
const MOST_OF_NODE = 4;

/**
 * Asks agents by their streams; they answer by requests, which any replica may receive. An agent is
 * asked the same once at a time, whatever the number of users.
 */
export class NodeQuestions implements NodeQuestionService {
  readonly #options: NodeQuestionsOptions;
  /** By id. */
  readonly #open = new Map<string, Open>();
  /** The id of the open question, by node and question. */
  readonly #ids = new Map<string, string>();

  constructor(options: NodeQuestionsOptions) {
    this.#options = options;
  }

  async ask(node: string, question: NodeQuestion): Promise<QuestionAnswer> {
    const answered =
      (await this.askHere(node, question)) ?? (await this.#options.elsewhere.ask(node, question));
    return answered ?? { problem: `no agent of ${node} that answers is connected to a controller` };
  }

  async askHere(node: string, question: NodeQuestion): Promise<QuestionAnswer | null> {
    const key = `${node} ${question.about} ${question.query}`;
    const id = this.#ids.get(key);
    const open = (id === undefined ? undefined : this.#open.get(id)) ?? this.#send(key, node, question);
    return open === null || !('answered' in open) ? open : await open.answered;
  }

  answered(node: string, answer: NodeAnswer): void {
    if (!this.#resolve(node, answer)) this.#options.elsewhere.answered(node, answer);
  }

  answeredHere(node: string, answer: NodeAnswer): void {
    this.#resolve(node, answer);
  }

  #send(key: string, node: string, question: NodeQuestion): Open | QuestionAnswer | null {
    const { send, clock } = this.#options;
    const ofNode = this.#open.values().filter((one) => one.node === node);
    if (ofNode.toArray().length >= MOST_OF_NODE)
      return { problem: `${MOST_OF_NODE} questions to ${node} are open; try again` };
    const id = randomBytes(16).toString('hex');
    if (!send(node, { type: 'question', id, ...question })) return null;
    const { promise: answered, resolve } = Promise.withResolvers<QuestionAnswer>();
    const done = (answer: QuestionAnswer): void => {
      this.#open.delete(id);
      this.#ids.delete(key);
      cancel();
      resolve(answer);
    };
    const problem = `the agent of ${node} did not answer in ${QUESTION_PATIENCE.agent / 1000} s`;
    const cancel = clock.after(QUESTION_PATIENCE.agent, () => done({ problem }));
    const open = { node, answered, done };
    this.#open.set(id, open);
    this.#ids.set(key, id);
    return open;
  }

  /** False: this controller did not ask this agent, or no longer waits. */
  #resolve(node: string, { id, ...answered }: NodeAnswer): boolean {
    const open = this.#open.get(id);
    if (open?.node !== node) return false;
    open.done(answered);
    return true;
  }
}
