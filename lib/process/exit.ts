import { constants } from 'node:os';
import { extname, join } from 'node:path';
import type { Log } from './log.ts';

/** Exit statuses (docs/semantics.md section 4). */
export const EXIT = { done: 0, invalid: 1, usage: 2, refused: 3 } as const;
export type ExitStatus = (typeof EXIT)[keyof typeof EXIT];

/** Ends the command with a message on standard error and a status. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly status: ExitStatus;

  constructor(status: ExitStatus, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/**
 * Resolves on SIGTERM or SIGINT; with null if `ended` is aborted before. A signal that arrives
 * while nobody waits ends the process, as it does where nobody ever waited.
 */
export function untilStopped(ended?: AbortSignal): Promise<NodeJS.Signals | null> {
  if (ended?.aborted) return Promise.resolve(null);
  return new Promise((resolve) => {
    const keepAlive = setInterval(() => {}, 2 ** 30);
    const end = (signal: NodeJS.Signals | null): void => {
      for (const one of SIGNALS) process.removeListener(one, end);
      ended?.removeEventListener('abort', abort);
      clearInterval(keepAlive);
      resolve(signal);
    };
    const abort = (): void => end(null);
    ended?.addEventListener('abort', abort);
    listen();
    for (const one of SIGNALS) process.on(one, end);
  });
}

/**
 * The first process of a container has no default: the kernel drops what it does not listen for
 * (pid_namespaces(7)). Called when the program begins.
 */
export function listenAsFirstProcess(): void {
  if (process.pid === 1) listen();
}

/**
 * For good: Node.js takes a signal from the kernel at once and tells of it when it next polls. If
 * the last listener were removed in between, the signal would be lost.
 */
function listen(): void {
  for (const signal of SIGNALS)
    if (!process.listeners(signal).includes(endUnawaited)) process.prependListener(signal, endUnawaited);
}

/** Comes before the listeners of those who wait. */
function endUnawaited(signal: NodeJS.Signals): void {
  if (process.listenerCount(signal) > 1) return;
  if (process.pid === 1) process.exit(128 + constants.signals[signal]);
  process.removeListener(signal, endUnawaited);
  process.kill(process.pid, signal);
}

/** Milliseconds: Kubernetes kills a pod 30 s after SIGTERM. */
const LONGEST_STOP = 20_000;

/**
 * Ends this process if it has not ended by itself within 20 s, and logs what kept it. Called when
 * it begins to stop.
 */
export function exitInTime(log: Log, fields: object): void {
  const exit = (): void => {
    const open = process.getActiveResourcesInfo();
    log.error(`not ended within ${LONGEST_STOP / 1000} s; exiting`, { ...fields, open });
    process.exit();
  };
  setTimeout(exit, LONGEST_STOP).unref();
}

/**
 * Returns the path of the module `name`.ts beside another one, for a process or thread of its own.
 * In a bundle (build/package/bundle.ts) such a module is a file of its own with the bundle's
 * extension.
 *
 * @param meta `import.meta` of the module that starts it
 */
export function siblingModule(meta: Pick<ImportMeta, 'dirname' | 'filename'>, name: string): string {
  return join(meta.dirname, `${name}${extname(meta.filename)}`);
}

/** Milliseconds. */
const LOOK = 500;

/**
 * Ends this process, which was started with a channel (child_process.fork), when its parent has
 * ended. Node.js emits no `disconnect` while a socket that was sent waits for the parent's answer,
 * so the channel is looked at besides.
 */
export function exitWithParent(process: NodeJS.Process): void {
  process.on('disconnect', () => process.exit());
  setInterval(() => {
    if (process.connected !== true) process.exit();
  }, LOOK).unref();
}
