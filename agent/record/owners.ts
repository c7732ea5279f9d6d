import type { Ruleset } from '../render/ruleset.ts';
import type { ChainOwner, Owners } from './accounting.ts';

/**
 * The owners of the chains of a ruleset: each policy rule has one chain, and with logging a second
 * one that writes its record.
 */
export function nftOwners({ chains }: Ruleset): Owners {
  const recording = new Set<string>();
  for (const { ruleId, source } of chains.values())
    if (ruleId !== null && source === null) recording.add(ruleId);
  const owners = new Map<string, ChainOwner>();
  for (const { name, ruleId, source } of chains.values()) {
    if (ruleId === null) continue;
    const kind = source === null ? 'record' : recording.has(ruleId) ? 'logged' : 'matched';
    owners.set(name, { rule: ruleId, kind });
  }
  return owners;
}
