import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
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

interface DaemonOptions {
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

/**
 * Below the ports that Linux draws for outgoing connections: none takes one before its server does.
 */
const FIRST = 20_000;
/** Each of mocha's worker processes has a share, so that none is given another's. */
const SHARE = 2_000;
const SHARES = 6;

/** TCP ports of 127.0.0.1 that nobody listens on now. */
export async function freePorts(count: number): Promise<number[]> {
  const share = Number(process.env.MOCHA_WORKER_ID ?? SHARES - 1) % SHARES;
  const start = Math.floor(Math.random() * SHARE);
  const servers = new Map<number, Server>();
  for (let i = 0; servers.size < count; i++) {
    if (i === SHARE) throw new Error(`all ports from ${FIRST + share * SHARE} on are in use`);
    const port = FIRST + share * SHARE + ((start + i) % SHARE);
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
      servers.set(port, server);
    } catch {
      // Somebody listens there.
    }
  }
  await Promise.all([...servers.values()].map((server) => once(server.close(), 'close')));
  return [...servers.keys()];
}
