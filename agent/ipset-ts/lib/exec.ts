import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Writable } from 'node:stream';

/** Options of one call. */
export interface ExecOptions {
  /**
   * Text for standard input; default: none. Parts of an Iterable are requested one by one when the
   * process has read the one before, so that it works while the next one is made.
   */
  readonly stdin?: string | Iterable<string>;
}

/** The result of a process that ended by itself or by a signal. */
export interface ExecResult {
  /** Null if a signal ended the process. */
  readonly code: number | null;
  /** That signal; absent: it ended by itself. */
  readonly signal?: NodeJS.Signals;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs ipset with these arguments until it exits, whatever its exit code. Rejects with an ExecError
 * if it cannot run, exceeds the time limit or writes too much.
 */
export type Exec = (args: readonly string[], options?: ExecOptions) => Promise<ExecResult>;

/**
 * NO_COMMAND: the command cannot be run. TIMEOUT: it took too long. OUTPUT_LIMIT: it wrote too
 * much.
 */
export type ExecErrorCode = 'NO_COMMAND' | 'TIMEOUT' | 'OUTPUT_LIMIT';

/** An error of running the command, as opposed to one that the command reports. */
export class ExecError extends Error {
  override readonly name = 'ExecError';
  readonly code: ExecErrorCode;
  constructor(code: ExecErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Options of createExec. */
export interface RealExecOptions {
  /**
   * The command; `['ip', 'netns', 'exec', 'blue', 'ipset']` for another network namespace. Default:
   * `['ipset']`.
   */
  readonly command?: readonly [string, ...string[]];
  /** Milliseconds until the process is killed. Default: 30,000. */
  readonly timeout?: number;
  /**
   * Limit of bytes on standard output and standard error together. Default: 256 MiB; a set of a
   * million entries takes about 30 MiB.
   */
  readonly maxOutput?: number;
  /**
   * Arguments of calls for which the next process is started in advance and waits for its standard
   * input, as `['-exist', 'restore']` does. Node.js forks to start a process: 9 ms with 100 MB of
   * memory and 23 ms with 300 MB on a small virtual machine, where ipset itself takes less than 1
   * ms. This moves the cost to the time after the answer.
   */
  readonly ahead?: readonly string[];
}

/** An Exec that starts a process for each call, without a shell. */
export function createExec(options: RealExecOptions = {}): Exec {
  const { command = ['ipset'], timeout = 30_000, maxOutput = 256 * 1024 * 1024, ahead } = options;
  const [file, ...before] = command;
  const start = (args: readonly string[]) => spawn(file, [...before, ...args], { stdio: 'pipe' });
  const waiting = ahead === undefined ? null : startedAhead(() => start(ahead));
  return async (args, { stdin = '' } = {}) => {
    if (waiting === null || !isSame(args, ahead)) return run(start(args), stdin);
    try {
      return await run(waiting.acquire() ?? start(args), stdin);
    } finally {
      waiting.next();
    }
  };

  function run(child: ChildProcessWithoutNullStreams, stdin: string | Iterable<string>): Promise<ExecResult> {
    return new Promise((resolve, reject) => {
      const stop = (reason: unknown): void => {
        child.kill('SIGKILL');
        reject(reason);
      };
      const timer = setTimeout(
        () => stop(new ExecError('TIMEOUT', `${file} took longer than ${timeout} ms`)),
        timeout,
      );
      const stdout: Buffer[] = [];
      const stderr: Buffer[] = [];
      let bytes = 0;
      const collect = (into: Buffer[]) => (part: Buffer) => {
        bytes += part.length;
        if (bytes > maxOutput)
          stop(new ExecError('OUTPUT_LIMIT', `${file} wrote more than ${maxOutput} bytes`));
        else into.push(part);
      };
      child.once('error', (cause) => {
        clearTimeout(timer);
        reject(new ExecError('NO_COMMAND', `cannot run ${file}: ${cause.message}`, { cause }));
      });
      // Too many open files: there are no streams, and the error follows.
      if (child.stdout === undefined) return;
      child.stdout.on('data', collect(stdout));
      child.stderr.on('data', collect(stderr));
      // ipset stops reading at the first line that it refuses; its exit code reports that.
      child.stdin.on('error', () => {});
      writeLines(child.stdin, typeof stdin === 'string' ? [stdin] : stdin).catch(stop);

      child.once('close', (code, signal) => {
        clearTimeout(timer);
        const bySignal = signal === null ? {} : { signal };
        const text = (parts: Buffer[]) => Buffer.concat(parts).toString();
        resolve({ code, ...bySignal, stdout: text(stdout), stderr: text(stderr) });
      });
    });
  }
}

/**
 * ipset executes a last line without its newline: `add a 10.0.0.0/1`, if this process is killed in
 * the middle of `add a 10.0.0.0/16`. So each write(2) contains whole lines, and is short enough to
 * be atomic: a pipe never takes a part of up to PIPE_BUF bytes (pipe(7)). Node.js creates a Unix
 * socket instead, which takes data in whole buffers of its own (32 kB and more) and so never a part
 * of a shorter write.
 */
const PIPE_BUF = 4096;

/**
 * Requests each part when the process has read the one before. Rejects if a part cannot be made.
 */
async function writeLines(stdin: Writable, parts: Iterable<string>): Promise<void> {
  for (const part of parts) {
    for (const lines of wholeLines(Buffer.from(part))) {
      // Waits for each write, since Node.js joins writes that wait.
      const error = await new Promise((resolve) => stdin.write(lines, resolve));
      if (error) return;
    }
  }
  stdin.end();
}

function* wholeLines(text: Buffer): Generator<Buffer> {
  let at = 0;
  while (at < text.length) {
    const isRest = text.length - at <= PIPE_BUF;
    const newline = isRest ? -1 : text.lastIndexOf('\n', at + PIPE_BUF - 1);
    // Without a newline there, the line is longer than PIPE_BUF and cannot be written atomically.
    const end = newline >= at ? newline + 1 : Math.min(at + PIPE_BUF, text.length);
    yield text.subarray(at, end);
    at = end;
  }
}

/**
 * Keeps at most one process in advance: it is started after the second call and each further one.
 * It ends when this process does, since its standard input then ends.
 */
function startedAhead(start: () => ChildProcessWithoutNullStreams) {
  let child: ChildProcessWithoutNullStreams | null = null;
  let calls = 0;
  return {
    /** The waiting process; null if there is none. */
    acquire(): ChildProcessWithoutNullStreams | null {
      const taken = child;
      child = null;
      if (taken === null || taken.exitCode !== null || taken.signalCode !== null) return null;
      taken.removeAllListeners('error');
      for (const each of [taken, ...streamsOf(taken)]) each.ref();
      return taken;
    },
    next(): void {
      if (++calls < 2) return;
      // After the caller has received the answer.
      setImmediate(() => {
        if (child !== null) return;
        const started = start();
        child = started;
        // The next call then starts its own process and gets the error.
        started.on('error', () => {
          if (child === started) child = null;
        });
        for (const each of [started, ...streamsOf(started)]) each.unref();
      }).unref();
    },
  };
}

/**
 * The streams of pipes, which are sockets; Node.js types them more generally. None if there were
 * too many open files.
 */
function streamsOf({ stdin, stdout, stderr }: ChildProcessWithoutNullStreams): Socket[] {
  return [stdin, stdout, stderr].filter((each) => each !== undefined) as unknown as Socket[];
}

function isSame(a: readonly string[], b: readonly string[] | undefined): boolean {
  return a.length === b?.length && a.every((each, i) => each === b[i]);
}
