import { isRecordChain, type Ruleset } from '../render/ruleset.ts';
import type { ChainOwner, Owners } from './accounting.ts';

/**
 * The owners of the chains of a ruleset: each policy rule has one chain, and with logging a second
 * one that writes its record. So have spoofed packets.
 */
export function nftOwners({ chains }: Ruleset): Owners {
  const recording = new Set<string>();
  for (const chain of chains.values())
    if (chain.ruleId !== null && isRecordChain(chain)) recording.add(chain.ruleId);
  const owners = new Map<string, ChainOwner>();
  for (const chain of chains.values()) {
    const { name, ruleId } = chain;
    if (ruleId === null) continue;
    const kind = isRecordChain(chain) ? 'record' : recording.has(ruleId) ? 'logged' : 'matched';
    owners.set(name, { rule: ruleId, kind });
  }
  return owners;
}
