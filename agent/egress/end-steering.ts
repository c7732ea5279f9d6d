import { NftError } from 'nftables-napi';
import type { Kernel } from '../apply/netlink/kernel.ts';
import { type Match, plainRule } from '../render/ruleset.ts';
import { forgetAll } from './forget-connections.ts';
import { LABEL, MARK_CT, STEER } from './render/frame.ts';
import { MARK_MASK } from './render/marks.ts';

/**
 * Ends what the table steers, before the table goes: no connection is steered any more, and the
 * packets of those that were are dropped until the kernel has forgotten these connections. Without
 * that, packets between two steps of the removal would leave with the pods' own addresses, as
 * nothing else translates a connection that we have translated.
 */
export async function endSteering(
  kernel: Pick<Kernel, 'chains' | 'transact'>,
  forget: () => Promise<void> = forgetAll,
): Promise<void> {
  const { chains } = await kernel.chains([STEER]);
  if (chains.every(({ rules }) => rules.length === 0)) return;
  const marked = MARK_CT(MARK_MASK, 0, true);
  try {
    await dropOnly(kernel, [marked, LABEL(false)]);
  } catch (error) {
    // A kernel without CONFIG_NF_CONNTRACK_LABELS: no connection has any.
    if (!(error instanceof NftError && error.code === 'EOPNOTSUPP')) throw error;
    await dropOnly(kernel, [marked]);
  }
  await forget();
}

async function dropOnly(kernel: Pick<Kernel, 'transact'>, matches: readonly Match[]): Promise<void> {
  await kernel.transact([
    { kind: 'flushChain', name: STEER },
    ...matches.map(
      (match) =>
        ({ kind: 'addRule', chain: STEER, rule: plainRule({ kind: 'drop' }, match), source: null }) as const,
    ),
  ]);
}
