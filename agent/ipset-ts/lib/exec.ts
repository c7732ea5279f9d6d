import { spawn } from 'node:child_process';

export interface ExecOptions {
  /** Written to standard input; nothing is otherwise. */
  readonly stdin?: string;
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
 * Runs ipset with these arguments, to its end, whatever its exit code. Rejects with an ExecError where it could not, and with the
 * signal's reason where that was aborted.
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
  /** What to run; `['ip', 'netns', 'exec', 'blue', 'ipset']` for another network namespace. `['ipset']` by default. */
  readonly command?: readonly [string, ...string[]];
  /** Milliseconds until the process is killed; 30,000 by default. */
  readonly timeout?: number;
  /** Bytes on standard output at most, 256 MiB by default: a set of a million entries is about 30. */
  readonly maxOutput?: number;
}

/** An Exec that starts a process for each call, without a shell. */
export function createExec(options: RealExecOptions = {}): Exec {
  const { command = ['ipset'], timeout = 30_000, maxOutput = 256 * 1024 * 1024 } = options;
  const [file, ...before] = command;
  return (args, { stdin = '', signal } = {}) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const child = spawn(file, [...before, ...args], { stdio: 'pipe' });
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
      child.stdin.end(stdin);

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
