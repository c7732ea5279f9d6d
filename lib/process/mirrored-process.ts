import { type ChildProcess, fork, type Serializable } from 'node:child_process';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ListChange } from '../sharing/lists.ts';
import { exitWithParent } from './exit.ts';

export interface MirroredProcessOptions<State, Answer> {
  /** The module of the process: it calls `serveMirrored`. */
  readonly file: string;
  /** Megabytes of the process's heap. */
  readonly heap: number;
  /**
   * Called for each new process: returns the changes of the lists from the state before, at first
   * from empty lists.
   */
  readonly changes: () => (state: State) => Iterable<NamedChange>;
  /** The effort to send an object: 1 for a small one. */
  readonly costOf: (object: object) => number;
  /** Whether no further answer follows to the same question; absent: the first one is the last. */
  readonly isLast?: (answer: Answer) => boolean;
}

interface MirrorQuestion<State, Question> {
  readonly state: State;
  readonly question: Question;
  /** Sent to the process's standard input after the question; afterwards they are not read. */
  readonly bytes?: readonly Uint8Array[];
  /** Milliseconds for the answers, once the process runs and the changes of the state are sent. */
  readonly time: number;
}

type Message<Question> = { readonly update: MirrorUpdate } | { readonly question: Question };

interface Running<State> {
  readonly child: ChildProcess;
  /** Its first message; false: it ended before. */
  readonly ready: Promise<boolean>;
  readonly changes: (state: State) => Iterable<NamedChange>;
  readonly sender: MirrorSender;
}

/** Milliseconds until a new process says that it is ready; then it is ended. */
const LONGEST_START = 60_000;

/**
 * A process that has the lists of objects of a state, as they are at each question: so that no
 * question delays this thread, or fills its memory. (A worker thread whose heap is full ends the
 * whole process: Node.js 24.) It starts with the first question, and again with the one after its
 * end. The caller asks one question at a time.
 */
export class MirroredProcess<State, Question extends object, Answer extends object> {
  readonly #options: MirroredProcessOptions<State, Answer>;
  #running: Running<State> | null = null;
  #isClosed = false;

  constructor(options: MirroredProcessOptions<State, Answer>) {
    this.#options = options;
  }

  /** Undefined: none is running. */
  get pid(): number | undefined {
    return this.#running?.child.pid;
  }

  /** Starts the process, which the first question needs. */
  start(): void {
    this.#process();
  }

  /**
   * The answers so far if the process ends, or has no time left: then it is ended. None once it is
   * closed: questions may be on their way then.
   */
  async ask({ state, question, bytes, time }: MirrorQuestion<State, Question>): Promise<readonly Answer[]> {
    if (this.#isClosed) return [];
    const { child, ready, changes, sender } = this.#process();
    let timer: NodeJS.Timeout | undefined;
    // Only a question in progress keeps this process running.
    child.channel?.ref();
    try {
      if (!(await ready)) return [];
      for (const update of sender.updates(changes(state))) {
        send(child, { update });
        await nextTurn();
      }
      timer = setTimeout(() => child.kill('SIGKILL'), time);
      const answered = answersOf(child, this.#options.isLast);
      send(child, { question });
      const [answers] = await Promise.all([answered, write(child.stdin, bytes)]);
      return answers;
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

  #process(): Running<State> {
    if (this.#running?.child.connected === true) return this.#running;
    const { file, heap, changes, costOf } = this.#options;
    const child = fork(file, {
      execArgv: [`--max-old-space-size=${heap}`],
      serialization: 'advanced',
      stdio: ['pipe', 'inherit', 'inherit', 'ipc'],
    });
    // A question in progress learns of the end by `disconnect`.
    const forget = (): void => {
      if (this.#running?.child === child) this.#running = null;
      child.kill('SIGKILL');
    };
    child.once('exit', forget).on('error', forget);
    child.stdin?.on('error', forget);
    child.unref();
    child.channel?.unref();
    const timer = setTimeout(() => child.kill('SIGKILL'), LONGEST_START).unref();
    const ready = answersOf(child).then((messages) => {
      clearTimeout(timer);
      return messages.length > 0;
    });
    this.#running = { child, ready, changes: changes(), sender: new MirrorSender(costOf) };
    return this.#running;
  }
}

function send(child: ChildProcess, message: Message<object>): void {
  if (child.connected) child.send(message as Serializable);
}

/** Up to the last one, or to the end of the process; or it could not be started or reached. */
async function answersOf<Answer>(
  child: ChildProcess,
  isLast: (answer: Answer) => boolean = () => true,
): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  if (!child.connected) return answers;
  const { promise, resolve } = Promise.withResolvers<void>();
  const receive = (message: Serializable): void => {
    const answer = message as Answer;
    answers.push(answer);
    if (isLast(answer)) resolve();
  };
  child.on('message', receive).once('disconnect', resolve).once('error', resolve);
  await promise;
  child.off('message', receive).off('disconnect', resolve).off('error', resolve);
  return answers;
}

/** Resolves when the kernel has the pieces, or the process has ended. */
async function write(stdin: ChildProcess['stdin'], pieces: readonly Uint8Array[] = []): Promise<void> {
  if (stdin === null) return;
  stdin.cork();
  const written = pieces.map((piece) => new Promise<void>((resolve) => stdin.write(piece, () => resolve())));
  stdin.uncork();
  await Promise.all(written);
}

/**
 * The other end of a MirroredProcess: calls `answer` with each question, and the lists as the
 * updates before it say. Does nothing in a process that has no such parent.
 *
 * @param empty the lists before any update
 * @param share returns an equal object that shares memory with others
 */
export function serveMirrored<Lists extends object, Question extends object, Answer extends object>(
  empty: Lists,
  answer: (question: Question, lists: Lists, send: (answer: Answer) => void) => void,
  share?: (object: object) => object,
): void {
  const send = process.send?.bind(process);
  if (send === undefined) return;
  const receiver = new MirrorReceiver(empty, share);
  process.on('message', (message: Message<Question>) => {
    if ('update' in message) receiver.receive(message.update);
    else answer(message.question, receiver.lists(), send);
  });
  exitWithParent(process);
  // Signals are for the controller, which serves on for a while; they may reach all its processes.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
  send('ready');
}

/** The change of one of several lists. */
export interface NamedChange extends ListChange<object> {
  readonly list: string;
  /** The list as it is now; absent: its order does not matter. */
  readonly inOrder?: readonly object[];
}

/** Objects of one list that were removed, and new ones, by number. */
interface MirrorUpdate {
  readonly list: string;
  readonly removed: readonly number[];
  readonly added: readonly (readonly [number, object])[];
  /** The numbers of the whole list in order. */
  readonly order?: readonly number[];
}

/** The cost of one update, which is then written in a few milliseconds. */
const MOST_AT_ONCE = 500;

/** Sends each object once, as long as it stays the same JavaScript object. */
export class MirrorSender {
  readonly #numbers = new Map<string, Map<object, number>>();
  readonly #costOf: (object: object) => number;
  #last = 0;

  /** @param costOf 1 for a small object */
  constructor(costOf: (object: object) => number) {
    this.#costOf = costOf;
  }

  /** Updates to be sent one after the other; afterwards the other end has the lists as changed. */
  *updates(changes: Iterable<NamedChange>): Generator<MirrorUpdate> {
    for (const { list, removed, added, inOrder } of changes) {
      const numbers = this.#numbers.get(list) ?? new Map<object, number>();
      this.#numbers.set(list, numbers);
      const numberOf = (object: object): number => numbers.get(object) ?? 0;
      if (removed.length > 0) yield { list, removed: removed.map(numberOf), added: [] };
      for (const object of removed) numbers.delete(object);
      let some: [number, object][] = [];
      let cost = 0;
      for (const object of added) {
        numbers.set(object, ++this.#last);
        some.push([this.#last, object]);
        cost += this.#costOf(object);
        if (cost < MOST_AT_ONCE) continue;
        yield { list, removed: [], added: some };
        some = [];
        cost = 0;
      }
      if (inOrder !== undefined) yield { list, removed: [], added: some, order: inOrder.map(numberOf) };
      else if (some.length > 0) yield { list, removed: [], added: some };
    }
  }
}

/** Keeps the lists as the updates say. */
export class MirrorReceiver<Lists extends object> {
  readonly #byList = new Map<string, Map<number, object>>();
  readonly #changed = new Set<string>();
  readonly #share: (object: object) => object;
  #lists: Lists;

  /**
   * @param empty the lists before any update
   * @param share returns an equal object that shares memory with others
   */
  constructor(empty: Lists, share: (object: object) => object = (object) => object) {
    this.#lists = empty;
    this.#share = share;
  }

  receive({ list, removed, added, order }: MirrorUpdate): void {
    const objects = this.#byList.get(list) ?? new Map<number, object>();
    for (const number of removed) objects.delete(number);
    for (const [number, object] of added) objects.set(number, this.#share(object));
    const ordered = order?.map((number) => [number, objects.get(number) ?? {}] as const);
    this.#byList.set(list, ordered === undefined ? objects : new Map(ordered));
    this.#changed.add(list);
  }

  /** Unchanged lists and objects are the same ones, and so is an unchanged state. */
  lists(): Lists {
    if (this.#changed.size === 0) return this.#lists;
    const lists = [...this.#changed].map((list) => [list, [...(this.#byList.get(list)?.values() ?? [])]]);
    this.#changed.clear();
    this.#lists = { ...this.#lists, ...Object.fromEntries(lists) };
    return this.#lists;
  }
}
