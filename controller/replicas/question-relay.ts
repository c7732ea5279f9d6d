import type { NodeAnswer, NodeQuestion, PassedQuestion, QuestionAnswer } from '../../apis/node-question.ts';
import type { QuestionsElsewhere } from '../publish/node-questions.ts';

export interface QuestionRelayOptions {
  /** Null: the controller at `peer` (HOST:PORT) has none; or it was an answer. */
  readonly send: (peer: string, passed: PassedQuestion) => Promise<QuestionAnswer | null>;
  /** The other controllers, HOST:PORT each. */
  readonly peers: () => readonly string[];
}

/** Requests to other controllers at the same time; more are not sent. */
const MOST_AT_ONCE = 256;

/** Passes questions to agents on to the other controllers, and agents' answers. */
export class QuestionRelay implements QuestionsElsewhere {
  readonly #options: QuestionRelayOptions;
  #inProgress = 0;

  constructor(options: QuestionRelayOptions) {
    this.#options = options;
  }

  /** All at once: the first that has the agent's stream counts. */
  async ask(node: string, question: NodeQuestion): Promise<QuestionAnswer | null> {
    const asked = this.#options.peers().map(async (peer) => {
      const answered = await this.#send(peer, { kind: 'question', node, ...question });
      return answered ?? Promise.reject(new Error(`${peer} has no stream of ${node}`));
    });
    return Promise.any(asked).catch(() => null);
  }

  /** To all: an answer does not say who asked. */
  answered(node: string, answer: NodeAnswer): void {
    for (const peer of this.#options.peers()) void this.#send(peer, { kind: 'answer', node, answer });
  }

  async #send(peer: string, passed: PassedQuestion): Promise<QuestionAnswer | null> {
    if (this.#inProgress >= MOST_AT_ONCE) return null;
    this.#inProgress++;
    try {
      return await this.#options.send(peer, passed);
    } catch {
      // One that fails is down, too busy, or of an earlier version.
      return null;
    } finally {
      this.#inProgress--;
    }
  }
}
