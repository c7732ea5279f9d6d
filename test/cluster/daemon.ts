import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { DIE_WITH_PARENT, type Namespace } from '../netns/namespace.ts';

/** How long a process may take to end in order. */
const PATIENCE_MS = 20_000;

/** A program that is started, stopped and started again with the same arguments. */
export interface Daemon {
  readonly name: string;
  isRunning(): boolean;
  /** Its process; undefined where it isn't running. */
  pid(): number | undefined;
  start(): Promise<void>;
  /**
   * Ends it and waits for that; SIGTERM becomes SIGKILL after 20 s. Does nothing where it isn't
   * running.
   */
  stop(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** The last lines of what it printed, over all starts. */
  log(lines?: number): Promise<string>;
}

export interface DaemonOptions {
  readonly name: string;
  readonly argv: readonly string[];
  /** Where its output is added. */
  readonly logFile: string;
  readonly namespace?: Namespace;
  readonly env?: NodeJS.ProcessEnv;
}

/** The program dies with this process, kill -9 included. Nothing runs before start(). */
export function daemon({ name, argv, logFile, namespace, env }: DaemonOptions): Daemon {
  let child: ChildProcess | undefined;
  const isRunning = () => child !== undefined && child.exitCode === null && child.signalCode === null;

  return {
    name,
    isRunning,
    pid: () => (isRunning() ? child?.pid : undefined),
    async start() {
      if (isRunning()) return;
      const log = await open(logFile, 'a');
      const command = namespace?.command(argv) ?? argv;
      child = spawn('setpriv', [...DIE_WITH_PARENT, ...command], {
        stdio: ['ignore', log.fd, log.fd],
        env: env ?? process.env,
      });
      await once(child, 'spawn');
      await log.close();
    },
    async stop(signal = 'SIGTERM') {
      if (child === undefined || !isRunning()) return;
      const ended = once(child, 'exit');
      child.kill(signal);
      const timer = setTimeout(() => child?.kill('SIGKILL'), PATIENCE_MS);
      await ended;
      clearTimeout(timer);
    },
    async log(lines = 40) {
      const text = await readFile(logFile, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return '';
        throw error;
      });
      return text.trimEnd().split('\n').slice(-lines).join('\n');
    },
  };
}
