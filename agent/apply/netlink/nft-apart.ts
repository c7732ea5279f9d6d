import { createExec } from 'ipset-ts';
import { NftError, type NftErrorDetail } from 'nftables-napi';
import { siblingModule } from '../../../lib/process/exit.ts';

/**
 * libnftables ended with the process that called it. Before 1.1.2 it does so when it reads a set
 * that 1.1.2 or later has made, in whatever table (nftables be737a1986bf); nodewall's own changes
 * go by netlink and read no set of others.
 */
const CRASHED = 'CRASHED';
/** A process that somebody, or the kernel for memory, kills has said nothing of libnftables. */
const OF_CRASHES: readonly unknown[] = ['SIGSEGV', 'SIGABRT', 'SIGBUS'];

/** Milliseconds: a process starts slowly on a busy machine. */
const TIME_LIMIT = 60_000;

/** The answer of the child. */
export type ApartAnswer =
  | { readonly text: string }
  | { readonly details: readonly [NftErrorDetail, ...NftErrorDetail[]] };

/**
 * Runs a command of nft in a process of its own, for commands by which libnftables reads sets of
 * others, or of ours that another nft has loaded (at boot): it may not survive that. Returns what
 * it prints. Throws NftError, also with code CRASHED.
 *
 * @param output names: of protocols, priorities, marks and times
 */
export async function runApart(command: string, output: 'numbers' | 'names' = 'numbers'): Promise<string> {
  const script = siblingModule(import.meta, 'nft-apart-child');
  const exec = createExec({ command: [process.execPath, script], timeout: TIME_LIMIT });
  const { code, signal, stdout, stderr } = await exec([output], { stdin: `${command}\n` });
  if (OF_CRASHES.includes(signal)) {
    const message = 'libnftables of this machine cannot read sets of a later version (nftables 1.1.2)';
    throw new NftError([{ code: CRASHED, message, operation: null }]);
  }
  if (code !== 0) throw new Error(`a process for nft ended with ${signal ?? `status ${code}`}: ${stderr}`);
  const answer: ApartAnswer = JSON.parse(stdout);
  if ('details' in answer) throw new NftError(answer.details);
  return answer.text;
}

/** Whether nft could not be asked, because of what others have. */
export function isCrash(error: unknown): boolean {
  return error instanceof NftError && error.code === CRASHED;
}
