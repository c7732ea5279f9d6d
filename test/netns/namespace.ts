/**
 * A network namespace without a name, held by a process that dies with us.
 *
 * The holder is `cat`: it lives as long as its standard input is open, and PR_SET_PDEATHSIG kills
 * it besides, so nothing is left behind however the test ends, kill -9 included. Named namespaces
 * would survive.
 */
import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { PATIENCE } from './patience.ts';

interface RunOptions {
  readonly stdin?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Milliseconds until the command is killed; default 60,000. */
  readonly timeout?: number;
  /**
   * Resolve whatever the exit status is. Default: a status other than 0 rejects with {@link
   * CommandError}.
   */
  readonly anyStatus?: boolean;
}

export interface RunResult {
  /** Exit status; null when a signal ended the command. */
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly code = 'COMMAND_FAILED';
  readonly command: readonly string[];
  readonly result: RunResult;
  constructor(command: readonly string[], result: RunResult) {
    const end = result.signal ?? `status ${result.status}`;
    super(`${command.join(' ')}: ${end}\n${result.stderr || result.stdout}`);
    this.command = command;
    this.result = result;
  }
}

export interface Namespace {
  /** For messages. */
  readonly name: string;
  /**
   * Of the process that holds the namespace; iproute2 takes it as a namespace's identity (`netns
   * PID`).
   */
  readonly pid: number;
  /** Path for nsenter --net=… and setns(2). */
  readonly path: string;
  /** The argument array that runs a command inside. */
  command(argv: readonly string[]): string[];
  /** Runs a command to its end. */
  run(argv: readonly string[], options?: RunOptions): Promise<RunResult>;
  /**
   * Starts a long-running command; its pid is the command's own. It is killed when this process
   * dies.
   */
  spawn(argv: readonly string[], options?: Pick<RunOptions, 'env' | 'cwd'>): ChildProcessWithoutNullStreams;
  /** Ends what was started inside and the namespace with it. */
  close(): Promise<void>;
}

/** Arguments of setpriv: what it starts is killed when this process ends, however it does. */
export const DIE_WITH_PARENT = ['--pdeathsig', 'KILL', '--'];

/** Makes an empty namespace with only `lo`, which is down. Needs root (CAP_SYS_ADMIN). */
export async function createNamespace(name: string): Promise<Namespace> {
  const holder = spawn('setpriv', [...DIE_WITH_PARENT, 'unshare', '--net', 'cat']);
  const stderr = text(holder.stderr);
  holder.stdin.on('error', ignoreBrokenPipe);
  holder.stdin.write('\n');
  // The echo proves that unshare(2) is done: cat only starts afterwards.
  const ended = await Promise.race([once(holder.stdout, 'data').then(() => false), closed(holder)]);
  const pid = holder.pid;
  if (ended || pid === undefined) throw new Error(`namespace ${name}: ${await stderr}`);
  const path = `/proc/${pid}/ns/net`;
  const started = new Set<ChildProcess>();
  const command = (argv: readonly string[]) => ['nsenter', `--net=${path}`, '--', ...argv];

  function start(argv: readonly string[], options: Pick<RunOptions, 'env' | 'cwd'> = {}) {
    const child = spawn('setpriv', [...DIE_WITH_PARENT, ...command(argv)], { env: process.env, ...options });
    child.stdin.on('error', ignoreBrokenPipe);
    started.add(child);
    child.once('exit', () => started.delete(child));
    return child;
  }

  return {
    name,
    pid,
    path,
    command,
    spawn: start,
    run: (argv, options = {}) => finish(start(argv, options), argv, options),
    async close() {
      const ends = [...started].map((child) => stop(child));
      holder.stdin.end();
      holder.kill('SIGKILL');
      await Promise.all([...ends, closed(holder)]);
    },
  };
}

/** Kills a process that we started, and waits until it is gone. */
export async function stop(child: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill(signal);
  await gone;
}

async function finish(
  child: ChildProcessWithoutNullStreams,
  argv: readonly string[],
  options: RunOptions,
): Promise<RunResult> {
  const timer = setTimeout(() => child.kill('SIGKILL'), (options.timeout ?? 60_000) * PATIENCE);
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  child.stdin.end(options.stdin ?? '');
  await closed(child);
  clearTimeout(timer);
  const [stdout, stderr] = await output;
  const result = { status: child.exitCode, signal: child.signalCode, stdout, stderr };
  if (result.status !== 0 && options.anyStatus !== true) throw new CommandError(argv, result);
  return result;
}

async function closed(child: ChildProcess): Promise<true> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
  return true;
}

/** A command that doesn't read its input to the end is none of our business. */
function ignoreBrokenPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE' && error.code !== 'ECONNRESET') throw error;
}

/** A TCP address in a namespace, or a Unix socket, which no network namespace confines. */
type Endpoint = { readonly host: string; readonly port: number } | { readonly path: string };

/** Hands each connection on; says so once it listens. */
const PROGRAM = `
const { connect, createServer } = require('node:net');
const [from, to] = process.argv.slice(1).map(JSON.parse);
const server = createServer((here) => {
  const there = connect(to);
  for (const [a, b] of [[here, there], [there, here]]) a.pipe(b).on('error', () => a.destroy());
  for (const [a, b] of [[here, there], [there, here]]) a.on('close', () => b.destroy());
});
server.listen(from, () => console.log('listening'));
`;

/** Hands each connection to `from` on to `to`, in a namespace. Ends with the namespace. */
export async function relay(inside: Namespace, from: Endpoint, to: Endpoint): Promise<void> {
  const child = inside.spawn([process.execPath, '-e', PROGRAM, JSON.stringify(from), JSON.stringify(to)]);
  const failed = once(child, 'exit').then(() => {
    throw new Error('the relay ended');
  });
  await Promise.race([once(child.stdout, 'data'), failed]);
  failed.catch(() => {});
}
