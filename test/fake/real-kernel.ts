import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { NftError, type NftErrorDetail } from 'nftables-napi';
import type { Kernel } from '../../agent/apply/netlink/kernel.ts';
import type { Command } from '../../agent/apply/plan/command.ts';
import { DIE_WITH_PARENT } from '../netns/namespace.ts';

/** What the child is asked. */
export type Question = { readonly id: number } & Request;

type Request =
  | { readonly method: 'nft'; readonly argument: string }
  | { readonly method: 'transact'; readonly argument: readonly Command[] }
  | { readonly method: 'chains'; readonly argument: readonly string[] }
  | { readonly method: 'elements'; readonly argument: string }
  | { readonly method: 'snapshot' | 'generation'; readonly argument?: undefined };

/** One of the three. */
export interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly refused?: readonly NftErrorDetail[];
  readonly failed?: string;
}

export interface RealKernel extends Kernel {
  /** Of the child, whose network namespace it is. */
  readonly pid: number;
  /** Runs commands as a stranger's nft does. */
  nft(text: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * nf_tables itself, in an empty network namespace that is gone with the child that holds it, and
 * with us: however a test ends, the machine's own rules are not reached. The addon belongs to the
 * namespace its process is in, hence the child.
 */
export async function realKernel(): Promise<RealKernel> {
  const child = spawn(
    'setpriv',
    [
      ...DIE_WITH_PARENT,
      'unshare',
      '--net',
      '--',
      process.execPath,
      join(import.meta.dirname, 'real-kernel-child.ts'),
    ],
    { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], serialization: 'advanced' },
  );
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  let last = 0;
  child.on('message', (message) => {
    const { id, value, refused, failed } = message as Answer;
    const call = waiting.get(id);
    waiting.delete(id);
    const [first, ...more] = refused ?? [];
    if (first !== undefined) call?.reject(new NftError([first, ...more]));
    else if (failed !== undefined) call?.reject(new Error(failed));
    else call?.resolve(value);
  });
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error('the child of the real kernel ended'));
  });
  const ask = <T>(request: Request): Promise<T> =>
    new Promise((resolve, reject) => {
      const id = ++last;
      waiting.set(id, { resolve: (value) => resolve(value as T), reject });
      child.send({ ...request, id });
    });
  const { pid = 0 } = child;
  const kernel: RealKernel = {
    pid,
    transact: (argument) => ask({ method: 'transact', argument }),
    chains: (argument) => ask({ method: 'chains', argument }),
    elements: (argument) => ask({ method: 'elements', argument }),
    snapshot: () => ask({ method: 'snapshot' }),
    generation: () => ask({ method: 'generation' }),
    nft: (argument) => ask({ method: 'nft', argument }),
    async close() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
  };
  if ((await kernel.snapshot()) !== null) throw new Error('not a fresh namespace');
  return kernel;
}
