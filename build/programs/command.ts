import { spawn } from 'node:child_process';
import { once } from 'node:events';

export interface Finished {
  /** Exit status; null when a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly cwd?: string;
  /** In place of this process's environment. */
  readonly env?: NodeJS.ProcessEnv;
  readonly stdin?: string;
  /** Its standard error is passed on as it comes. */
  readonly shown?: boolean;
}

/** Runs a program to its end, whatever that is. Rejects where it can't be started (ENOENT). */
export async function run(argv: readonly string[], options: CommandOptions = {}): Promise<Finished> {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, { cwd: options.cwd, env: options.env });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (part) => {
    stdout += part;
  });
  child.stderr.setEncoding('utf8').on('data', (part) => {
    stderr += part;
    if (options.shown) process.stderr.write(part);
  });
  // A program that doesn't read its input to the end is none of our business.
  child.stdin.on('error', () => {});
  child.stdin.end(options.stdin ?? '');
  const [code] = await once(child, 'close');
  return { code, stdout, stderr };
}

/** Resolves with the program's standard output. Rejects with its standard error if it fails. */
export async function output(argv: readonly string[], options: CommandOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await run(argv, options);
  if (code !== 0) throw new Error(`${argv.join(' ')}: status ${code}\n${stderr || stdout}`);
  return stdout;
}

/** The program's standard output; null where there is no such program. */
export async function outputIfThere(
  argv: readonly string[],
  options?: CommandOptions,
): Promise<string | null> {
  try {
    return await output(argv, options);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
