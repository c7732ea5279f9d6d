import { spawn } from 'node:child_process';
import { NODEWALL } from '../program.ts';

export interface Ended {
  /** Null: ended by a signal. */
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `nodewall` to its end, as a user would. */
export function nodewall(...args: readonly string[]): Promise<Ended> {
  return run([NODEWALL, ...args]);
}

export async function run(
  [command = '', ...args]: readonly string[],
  { stdin = '', env = {} }: { readonly stdin?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<Ended> {
  const child = spawn(command, args, { env: { ...process.env, ...env } });
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
  const output = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream].setEncoding('utf8').on('data', (text: string) => {
      output[stream] += text;
    });
  }
  child.stdin.on('error', () => undefined); // a command that doesn't read its input
  child.stdin.end(stdin);
  const status = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  clearTimeout(timer);
  return { status, ...output };
}
