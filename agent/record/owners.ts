import type { Ruleset } from '../render/ruleset.ts';
import type { ChainOwner, Owners } from './accounting.ts';

/**
 * Whose packets the chains of a table count: each policy rule has a chain, and one more that writes
 * its record.
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
