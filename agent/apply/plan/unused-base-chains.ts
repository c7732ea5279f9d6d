import { plainChain } from '../../render/plain.ts';
import type { Chain, Ruleset } from '../../render/ruleset.ts';
import { BASE_CHAINS, FORWARD } from '../../render/topology.ts';
import { type CurrentState, sameHook } from './current-state.ts';

/**
 * Adds to the ruleset, without rules, our base chains that exist and that it no longer needs (that
 * of NodePort traffic is made when the first rule needs it, that of forwarded packets for
 * anti-spoofing). A base chain is never deleted: the
 * kernel would then drop every packet queued to NFQUEUE in that network namespace, also those
 * queued by other tables.
 */
export function withUnusedBaseChains(desired: Ruleset, { chains }: Pick<CurrentState, 'chains'>): Ruleset {
  const unused = [...Object.values(BASE_CHAINS), FORWARD].flatMap(({ chain: name, base }): Chain[] => {
    const there = chains.get(name);
    if (there === undefined || desired.chains.has(name) || !sameHook(there.base, base)) return [];
    return [{ ...plainChain(name, []), base }];
  });
  if (unused.length === 0) return desired;
  const all = [...desired.chains.values(), ...unused];
  return { ...desired, chains: new Map(all.map((chain) => [chain.name, chain])) };
}
