import { type ChildProcess, fork, type Serializable } from 'node:child_process';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Config } from '../../apis/config.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { MirrorSender, type MirrorUpdate } from './object-mirror.ts';

/** Sent to the process before its questions; the configuration comes first. */
export type MirrorMessage = { readonly config: Config } | { readonly update: MirrorUpdate };

export interface MirroredProcessOptions<Answer> {
  /** The module of the process: it calls `serveMirrored`. */
  readonly file: string;
  readonly config: Config;
  /** The objects of the cluster as they are compiled now; null: not known yet. */
  readonly objects: () => ClusterObjects | null;
  /** Megabytes of the process's heap. */
  readonly heap: number;
  /** Whether no further answer follows to the same question. */
  readonly isLast: (answer: Answer) => boolean;
}

interface Running {
  readonly child: ChildProcess;
  readonly sender: MirrorSender;
}

/**
 * A process that has the objects of the cluster, as they are at each question. It starts with the
 * first question, and again with the one after its end. The caller asks one question at a time.
 */
export class MirroredProcess<Question extends object, Answer extends object> {
  readonly #options: MirroredProcessOptions<Answer>;
  #running: Running | null = null;
  #isClosed = false;

  constructor(options: MirroredProcessOptions<Answer>) {
    this.#options = options;
  }

  /**
   * The answers so far if the process ends, or has no time left: then it is ended.
   *
   * @param milliseconds for the objects that changed, and the answers
   */
  async ask(question: Question, milliseconds: number): Promise<readonly Answer[]> {
    const objects = this.#options.objects();
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
      const answered = answersOf(child, this.#options.isLast);
      send(child, question);
      return await answered;
    } finally {
      clearTimeout(timer);
      child.channel?.unref();
    }
  }

  /** Ends the process; the next question starts another. */
  end(): void {
    this.#running?.child.kill('SIGKILL');
    this.#running = null;
  }

  close(): void {
    this.#isClosed = true;
    this.#running?.child.kill('SIGKILL');
  }

  #process(): Running {
    if (this.#running?.child.connected === true) return this.#running;
    const { file, heap, config } = this.#options;
    const child = fork(file, {
      execArgv: [`--max-old-space-size=${heap}`],
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const forget = (): void => {
      if (this.#running?.child === child) this.#running = null;
    };
    child.once('exit', forget).on('error', forget);
    child.unref();
    child.channel?.unref();
    send(child, { config } satisfies MirrorMessage);
    this.#running = { child, sender: new MirrorSender() };
    return this.#running;
  }
}

function send(child: ChildProcess, message: object): void {
  if (child.connected) child.send(message as Serializable);
}

/** Up to the last one, or to the end of the process. */
async function answersOf<Answer>(
  child: ChildProcess,
  isLast: (answer: Answer) => boolean,
): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  if (!child.connected) return answers;
  const { promise, resolve } = Promise.withResolvers<void>();
  const take = (message: Serializable): void => {
    const answer = message as Answer;
    answers.push(answer);
    if (isLast(answer)) resolve();
  };
  child.on('message', take).once('disconnect', resolve);
  await promise;
  child.off('message', take).off('disconnect', resolve);
  return answers;
}
