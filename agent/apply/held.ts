import type { Family } from '../../apis/address.ts';
import { chainLines } from '../render/nfttext.ts';
import type { BaseChain, Chain, ChainVerdict, Ruleset, SetKey, SetMembers } from '../render/ruleset.ts';

/**
 * What the kernel holds of our table, as far as it is known. After an apply of ours it is what was applied; after a start or a foreign
 * change it is read from the kernel, and what can't be vouched for is unknown.
 */
export interface Held {
  /** Whether the table is there at all. */
  readonly table: boolean;
  /** The table is switched off (nft's flag `dormant`). */
  readonly dormant?: boolean;
  readonly chains: ReadonlyMap<string, HeldChain>;
  readonly sets: ReadonlyMap<string, HeldSet>;
  readonly maps: ReadonlyMap<string, HeldMap>;
}

export interface HeldChain {
  readonly base: BaseChain | null;
  /** The chain as we applied it; null where the kernel's rules are not known to be that. */
  readonly known: Chain | null;
}

export interface HeldSet {
  /** Null: keys of another kind than sets of ours have. */
  readonly family: Family | null;
  readonly key: SetKey;
  readonly interval: boolean;
  /** Null: elements that no set of ours has, so all are taken out and put in again. */
  readonly members: SetMembers | null;
}

export interface HeldMap {
  readonly isPortMap: boolean;
  /** As we filled it: its name says its content. */
  readonly known?: boolean;
  /** Null: elements that no map of ours has, so all are taken out and put in again. */
  readonly entries: ReadonlyMap<number, ChainVerdict> | null;
}

export const NOTHING_HELD: Held = { table: false, chains: new Map(), sets: new Map(), maps: new Map() };

/** What is held once a ruleset has been applied. */
export function heldAfter(ruleset: Ruleset): Held {
  return {
    table: true,
    chains: new Map([...ruleset.chains].map(([name, chain]) => [name, { base: chain.base, known: chain }])),
    sets: ruleset.sets,
    maps: new Map(
      [...ruleset.maps].map(([name, { entries }]) => [name, { isPortMap: true, known: true, entries }]),
    ),
  };
}

/** Whether two rulesets differ in nothing but the members of their sets. */
export function sameStructure(a: Ruleset, b: Ruleset): boolean {
  return (
    sameNames(a.chains, b.chains) &&
    sameNames(a.sets, b.sets) &&
    sameNames(a.maps, b.maps) &&
    [...b.chains].every(([name, chain]) => holdsChain({ known: a.chains.get(name) ?? null }, chain))
  );
}

function sameNames(a: ReadonlyMap<string, unknown>, b: ReadonlyMap<string, unknown>): boolean {
  if (a.size !== b.size) return false;
  for (const name of b.keys()) if (!a.has(name)) return false;
  return true;
}

/** A fixed chain is named for its content, so a known one of that name is the same. */
export function holdsChain({ known }: Pick<HeldChain, 'known'>, chain: Chain): boolean {
  if (known === null) return false;
  return known === chain || chain.fixed || chainLines(known).join('\n') === chainLines(chain).join('\n');
}

/** What of a base chain can't be changed in place. */
export function sameHook(a: BaseChain | null, b: BaseChain | null): boolean {
  return a?.type === b?.type && a?.hook === b?.hook && a?.priority === b?.priority;
}

/** What of it can: `add chain` sets the policy of one that is there. */
export function samePolicy(a: BaseChain | null, b: BaseChain | null): boolean {
  return a?.policy === b?.policy;
}
