import { AGENT_CALLS } from '../../apis/calls.ts';
import {
  MOST_ANSWER,
  NODE_QUESTION,
  type NodeAnswer,
  type NodeQuestion,
  type QuestionAnswer,
} from '../../apis/node-question.ts';
import type { QuestionUpdate } from '../../apis/stream.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { Log } from '../../lib/process/log.ts';
import { type Caller, callController } from '../receive/controller-client.ts';

interface QuestionAnswererOptions extends Caller {
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Answers at the same time. */
const MOST_AT_ONCE = 4;
/** Characters of a problem. */
const LONGEST = 500;

/** Sends to the controller what somebody asks of this node there. */
export class QuestionAnswerer {
  readonly #options: QuestionAnswererOptions;
  readonly #answer: (question: NodeQuestion) => Promise<string>;
  #inProgress = 0;

  /** @param answer throws a CommandError if there is no answer */
  constructor(options: QuestionAnswererOptions, answer: (question: NodeQuestion) => Promise<string>) {
    this.#options = options;
    this.#answer = answer;
  }

  /**
   * Does not wait: the answer is sent by itself. Too many questions have no answer; only a
   * controller that the agent has just left, or a broken one, asks them.
   */
  answer(update: QuestionUpdate): void {
    if (this.#inProgress >= MOST_AT_ONCE || this.#options.signal.aborted) return;
    this.#inProgress++;
    void this.#send(update).finally(() => {
      this.#inProgress--;
    });
  }

  async #send(update: QuestionUpdate): Promise<void> {
    const { node, log, signal } = this.#options;
    try {
      const body: NodeAnswer = { id: update.id, ...(await this.#answered(update)) };
      await callController(this.#options, AGENT_CALLS.answer, body, { signal, isStream: true });
    } catch (error) {
      // The user gets the message that there was no answer.
      const fields = { node, stage: 'receive', about: update.about, error: (error as Error).message };
      log.debug('cannot send what a controller asked for', fields);
    }
  }

  async #answered(update: QuestionUpdate): Promise<QuestionAnswer> {
    const { about, query } = update;
    const question = { about, query };
    if (!NODE_QUESTION.accepts(question))
      return { problem: `this agent knows no ${update.about}; it may be of an earlier version` };
    try {
      const text = await this.#answer(question);
      if (Buffer.byteLength(JSON.stringify(text)) < MOST_ANSWER - LONGEST) return { text };
      return {
        problem: `the ${question.about} of this node have more than ${MOST_ANSWER} bytes; ask for less`,
      };
    } catch (error) {
      const problem = (error as Error).message.slice(0, LONGEST);
      const isRefused = error instanceof CommandError && error.status === EXIT.usage;
      return isRefused ? { problem, isRefused } : { problem };
    }
  }
}
