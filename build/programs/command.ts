import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ifAbsent } from '../../lib/process/state-file.ts';

export interface Finished {
  /** Exit status; null when a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface CommandOptions {
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
export function outputIfThere(argv: readonly string[], options?: CommandOptions): Promise<string | null> {
  return output(argv, options).catch(ifAbsent);
}

/**
 * Unpacks a package of this machine's Debian, without what it depends on, into a folder. Nothing is
 * installed: no root needed, no service started. Rejects where there is no apt, or no such package.
 * `apt` are options, for packages of another suite.
 */
export async function unpackDebianPackage(
  name: string,
  folder: string,
  apt: readonly string[] = [],
): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'nodewall-package-'));
  try {
    // As root apt would download as user _apt, who may not write here.
    const options = ['-qq', '-o', 'APT::Sandbox::User=root', ...apt];
    await output(['apt-get', ...options, 'download', name], { cwd: scratch });
    const [file = ''] = await readdir(scratch);
    await output(['dpkg-deb', '--extract', join(scratch, file), folder]);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/**
 * The first package that a package depends on whose name fits; null where apt or the package is
 * missing.
 */
export async function debianDependency(name: string, pattern: RegExp): Promise<string | null> {
  const text = await outputIfThere(['apt-cache', 'depends', '--important', name]);
  const names = [...(text ?? '').matchAll(/^ *Depends: (\S+)$/gm)].map(([, dependency]) => dependency ?? '');
  return names.find((dependency) => pattern.test(dependency)) ?? null;
}
