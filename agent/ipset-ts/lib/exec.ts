import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Writable } from 'node:stream';

export interface ExecOptions {
  /**
   * Written to standard input, nothing is otherwise. Of parts each is asked for when the process
   * has read on: it works while the next one is made.
   */
  readonly stdin?: string | Iterable<string>;
  /** Ends the process. */
  readonly signal?: AbortSignal;
}

export interface ExecResult {
  /** Null when a signal ended the process. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs ipset with these arguments, to its end, whatever its exit code. Rejects with an ExecError
 * where it could not, and with the signal's reason where that was aborted.
 */
export type Exec = (args: readonly string[], options?: ExecOptions) => Promise<ExecResult>;

export type ExecErrorCode = 'NO_COMMAND' | 'TIMEOUT' | 'OUTPUT_LIMIT';

export class ExecError extends Error {
  override readonly name = 'ExecError';
  readonly code: ExecErrorCode;
  constructor(code: ExecErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface RealExecOptions {
  /**
   * What to run; `['ip', 'netns', 'exec', 'blue', 'ipset']` for another network namespace.
   * `['ipset']` by default.
   */
  readonly command?: readonly [string, ...string[]];
  /** Milliseconds until the process is killed; 30,000 by default. */
  readonly timeout?: number;
  /**
   * Bytes on standard output at most, 256 MiB by default: a set of a million entries is about 30.
   */
  readonly maxOutput?: number;
  /**
   * Arguments of calls whose next process is started ahead and waits for its standard input, as
   * `['-exist', 'restore']` does. To start a process Node.js forks: 9 ms with 100 MB in memory and
   * 23 ms with 300, on a small virtual machine, where ipset itself takes less than 1 ms. So the
   * caller pays that after the answer.
   */
  readonly ahead?: readonly string[];
}

/** An Exec that has a process for each call, without a shell. */
export function createExec(options: RealExecOptions = {}): Exec {
  const { command = ['ipset'], timeout = 30_000, maxOutput = 256 * 1024 * 1024, ahead } = options;
  const [file, ...before] = command;
  const start = (args: readonly string[]) => spawn(file, [...before, ...args], { stdio: 'pipe' });
  const waiting = ahead === undefined ? null : startedAhead(() => start(ahead));
  return async (args, { stdin = '', signal } = {}) => {
    signal?.throwIfAborted();
    if (waiting === null || !isSame(args, ahead)) return run(start(args), { stdin, signal });
    try {
      return await run(waiting.take() ?? start(args), { stdin, signal });
    } finally {
      waiting.next();
    }
  };

  function run(
    child: ChildProcessWithoutNullStreams,
    {
      stdin,
      signal,
    }: { readonly stdin: string | Iterable<string>; readonly signal: AbortSignal | undefined },
  ): Promise<ExecResult> {
    return new Promise((resolve, reject) => {
      const stop = (reason: unknown): void => {
        child.kill('SIGKILL');
        reject(reason);
      };
      const timer = setTimeout(
        () => stop(new ExecError('TIMEOUT', `${file} took longer than ${timeout} ms`)),
        timeout,
      );
      const onAbort = (): void => stop(signal?.reason);
      signal?.addEventListener('abort', onAbort, { once: true });

      const stdout: Buffer[] = [];
      const stderr: Buffer[] = [];
      let bytes = 0;
      const collect = (into: Buffer[]) => (part: Buffer) => {
        bytes += part.length;
        if (bytes > maxOutput)
          stop(new ExecError('OUTPUT_LIMIT', `${file} wrote more than ${maxOutput} bytes`));
        else into.push(part);
      };
      child.stdout.on('data', collect(stdout));
      child.stderr.on('data', collect(stderr));
      // ipset stops reading at the first line that it refuses; its exit code tells.
      child.stdin.on('error', () => {});
      writeLines(child.stdin, typeof stdin === 'string' ? [stdin] : stdin).catch(stop);

      child.once('error', (cause) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        reject(new ExecError('NO_COMMAND', `${file} cannot be run: ${cause.message}`, { cause }));
      });
      child.once('close', (code) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        resolve({ code, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() });
      });
    });
  }
}

/**
 * ipset takes a last line without its newline as a whole one: `add a 10.0.0.0/1`, where this
 * process was killed in the middle of `add a 10.0.0.0/16`. So each write(2) is of whole lines, and
 * short enough to be done as a whole or not at all: up to PIPE_BUF a pipe never takes a part
 * (pipe(7)), and what Node.js makes is a Unix socket, which never takes a part of a buffer of its
 * own (32 kB and more).
 */
const PIPE_BUF = 4096;

/** Of parts each is asked for when the process has read on. Rejects where one can't be made. */
async function writeLines(stdin: Writable, parts: Iterable<string>): Promise<void> {
  for (const part of parts) {
    for (const lines of wholeLines(Buffer.from(part))) {
      // Two that wait would be one write.
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
    // Without one there, the line is longer than that: nothing makes it whole.
    const end = newline >= at ? newline + 1 : Math.min(at + PIPE_BUF, text.length);
    yield text.subarray(at, end);
    at = end;
  }
}

/**
 * One process at most, started after the second call and each further one, for the next. It ends
 * when this process does: its standard input does then.
 */
function startedAhead(start: () => ChildProcessWithoutNullStreams) {
  let child: ChildProcessWithoutNullStreams | null = null;
  let calls = 0;
  return {
    /** Null where none waits. */
    take(): ChildProcessWithoutNullStreams | null {
      const taken = child;
      child = null;
      if (taken === null || taken.exitCode !== null || taken.signalCode !== null) return null;
      taken.removeAllListeners('error');
      for (const each of [taken, ...streamsOf(taken)]) each.ref();
      return taken;
    },
    next(): void {
      if (++calls < 2) return;
      // After whoever waits for the answer.
      setImmediate(() => {
        if (child !== null) return;
        const started = start();
        child = started;
        // Whoever calls next starts one then, and is told.
        started.on('error', () => {
          if (child === started) child = null;
        });
        for (const each of [started, ...streamsOf(started)]) each.unref();
      }).unref();
    },
  };
}

/** Of pipes; Node.js types them as streams of any kind. */
function streamsOf({ stdin, stdout, stderr }: ChildProcessWithoutNullStreams): Socket[] {
  return [stdin, stdout, stderr] as unknown as Socket[];
}

function isSame(a: readonly string[], b: readonly string[] | undefined): boolean {
  return a.length === b?.length && a.every((each, i) => each === b[i]);
}
