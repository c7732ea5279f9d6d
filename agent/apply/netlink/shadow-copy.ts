import { type Chain, matchedSet, type NftRule, type Ruleset, targets } from '../../render/ruleset.ts';
import type { Command } from '../plan/command.ts';
import type { CurrentState } from '../plan/current-state.ts';
import { chainDigest, type TableReading } from './reading.ts';

/**
 * A shadow copy of a desired chain, which nothing leads to. If it has the same digest as the
 * unknown chain of that name, that chain has the desired rules.
 */
export interface ShadowCopy {
  readonly name: string;
  readonly chain: Chain;
}

/**
 * Shadow copies for all chains whose rules are unknown but may be the desired ones: all objects
 * that the desired rules name exist.
 */
export function shadowCopies({ current }: TableReading, { chains }: Ruleset): ShadowCopy[] {
  const found: ShadowCopy[] = [];
  let number = 0;
  for (const chain of chains.values()) {
    const there = current.chains.get(chain.name);
    if (there === undefined || there.rules !== null) continue;
    if (!chain.rules.every((rule) => isComplete(rule, current))) continue;
    while (current.chains.has(`probe-${number}`)) number++;
    found.push({ name: `probe-${number++}`, chain });
  }
  return found;
}

function isComplete({ matches, statement }: NftRule, { chains, sets, maps }: CurrentState): boolean {
  return (
    targets(statement).every((name) => chains.has(name)) &&
    (!('map' in statement) || maps.has(statement.map)) &&
    matches.every((match) => {
      const set = matchedSet(match);
      return set === null || sets.has(set);
    })
  );
}

export function addShadowCopies(list: readonly ShadowCopy[]): Command[] {
  return list.flatMap(({ name, chain }): Command[] => [
    { kind: 'addChain', chain: { ...chain, name, base: null } },
    ...chain.rules.map((rule): Command => ({ kind: 'addRule', chain: name, rule, source: chain.source })),
  ]);
}

export function removeShadowCopies(list: readonly ShadowCopy[]): Command[] {
  return [
    ...list.map(({ name }): Command => ({ kind: 'flushChain', name })),
    ...list.map(({ name }): Command => ({ kind: 'deleteChain', name })),
  ];
}

/** The reading, with the chains that the digests of the shadow copies identify. */
export function recognize(
  reading: TableReading,
  list: readonly ShadowCopy[],
  copies: readonly { readonly name: string; readonly rules: Parameters<typeof chainDigest>[0] }[],
): TableReading {
  const digests = new Map(copies.map(({ name, rules }) => [name, chainDigest(rules)]));
  const chains = new Map(reading.current.chains);
  for (const { name, chain } of list) {
    const base = chains.get(chain.name)?.base ?? null;
    if (digests.get(name) === reading.digests.get(chain.name)) chains.set(chain.name, { ...chain, base });
  }
  return { ...reading, current: { ...reading.current, chains } };
}
