import { execFile } from 'node:child_process';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface Machine {
  readonly date: string;
  readonly cpu: string;
  readonly cores: number;
  /** Gigabytes. */
  readonly memory: number;
  readonly kernel: string;
  readonly nft: string;
  readonly node: string;
  /** Of the checkout; `dirty` where files of the product differ from it. */
  readonly revision: string;
  readonly dirty: boolean;
}

export async function describeMachine(): Promise<Machine> {
  const product = ['apis', 'lib', 'controller', 'agent', 'cli', 'bin'];
  const changes = await output('git', 'status', '--porcelain', '--', ...product);
  return {
    date: new Date().toISOString(),
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memory: Math.round(totalmem() / 1e9),
    kernel: release(),
    nft: (await output('nft', '--version')).replace(/^nftables\s+/, ''),
    node: process.version,
    revision: await output('git', 'rev-parse', '--short=12', 'HEAD'),
    dirty: changes !== '',
  };
}

/** Processes that want to run, average of the last minute. */
export function load(): number {
  return Math.round((loadavg()[0] ?? 0) * 100) / 100;
}

async function output(command: string, ...args: readonly string[]): Promise<string> {
  const cwd = join(import.meta.dirname, '..');
  return (await promisify(execFile)(command, [...args], { cwd })).stdout.trim();
}
