import type { Family } from '../../apis/address.ts';
import type { FamilyMembers } from '../../apis/memberset.ts';
import { baseLines, ruleText } from '../render/nfttext.ts';
import type { BaseChain, Chain, ChainVerdict, Ruleset } from '../render/ruleset.ts';

/**
 * What the kernel holds of our table, as far as it is known. After an apply of ours it is what was applied; after a start or a foreign
 * change it is read from the kernel, and what can't be vouched for is unknown.
 */
export interface Held {
  /** Whether the table is there at all. */
  readonly table: boolean;
  readonly chains: ReadonlyMap<string, HeldChain>;
  readonly sets: ReadonlyMap<string, HeldSet>;
  /** Null entries: a map that isn't a port map, or can't be read. */
  readonly maps: ReadonlyMap<string, ReadonlyMap<number, ChainVerdict> | null>;
}

export interface HeldChain {
  readonly base: BaseChain | null;
  /** The rules as text; null where they are not known to be what we applied. */
  readonly rules: readonly string[] | null;
}

export interface HeldSet {
  readonly family: Family | null;
  readonly interval: boolean;
  readonly members: Pick<FamilyMembers, 'singles' | 'prefixes'>;
}

export const NOTHING_HELD: Held = { table: false, chains: new Map(), sets: new Map(), maps: new Map() };

/** What is held once a ruleset has been applied. */
export function heldAfter(ruleset: Ruleset): Held {
  return {
    table: true,
    chains: new Map([...ruleset.chains].map(([name, chain]) => [name, heldChain(chain)])),
    sets: ruleset.sets,
    maps: new Map([...ruleset.maps].map(([name, map]) => [name, map.entries])),
  };
}

export function heldChain(chain: Chain): HeldChain {
  return { base: chain.base, rules: chain.rules.map(ruleText) };
}

export function sameBase(a: Pick<Chain, 'base'>, b: Pick<HeldChain, 'base'>): boolean {
  const none: Chain = { name: '', fixed: false, rules: [], source: null, base: null };
  return baseLines({ ...none, base: a.base }).join() === baseLines({ ...none, base: b.base }).join();
}
