import type { Config } from '../../apis/config.ts';
import { comment } from './name.ts';
import { plainChain, plainRule } from './plain.ts';
import type { Chain, NftRule } from './ruleset.ts';

/**
 * The machine's own copies of multicasts and broadcasts that it sends belong to the exemption
 * loopback: the kernel hands them in by the interface that they left. Others can send the same
 * with the same source, but by the wire, with an Ethernet header. So copies on interfaces without
 * Ethernet headers are not recognised.
 */
export interface OwnCopies {
  /** Accepts the copies; for all others the rules go on. */
  readonly rules: readonly NftRule[];
  /** The chain that the rule calls. */
  readonly chains: readonly Chain[];
}

const OWN_COPIES = 'own-copies';

/** None where the exemption is off. */
export function ownCopies({ exemptions }: Config): OwnCopies {
  if (!exemptions.loopback) return { rules: [], chains: [] };
  const jump = plainRule(
    { kind: 'jump', chain: OWN_COPIES },
    { match: 'toMany' },
    { match: 'local', field: 'saddr' },
  );
  const chain = plainChain(OWN_COPIES, [
    plainRule({ kind: 'return' }, { match: 'notEther' }),
    plainRule({ kind: 'return' }, { match: 'etherHeader' }),
    { ...plainRule({ kind: 'accept' }), comment: comment('exemption loopback') },
  ]);
  return { rules: [jump], chains: [chain] };
}
