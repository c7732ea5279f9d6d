import { isDeepStrictEqual } from 'node:util';
import type { Family } from '../../../lib/net/address.ts';
import { RULE_EXTENSION } from '../../extension/rules.ts';
import {
  type BaseChain,
  type Chain,
  plainChain,
  type Ruleset,
  type SetKey,
  type SetMembers,
} from '../../render/ruleset.ts';
import { BASE_CHAINS, FORWARD } from '../../render/topology.ts';
import { type ChainVerdict, type MapKey, mapKeyLength, type VerdictMap } from '../../render/verdict-map.ts';

/**
 * The current state of our table in the kernel, as far as it is known. After an apply it consists
 * of the very objects that were applied, so that unchanged objects are recognized by identity.
 * After a start or a foreign change it is read from the kernel, and chains whose digests don't
 * match are unknown.
 */
export interface CurrentState {
  /** Whether the table exists. */
  readonly table: boolean;
  /** The table is switched off (nft's flag `dormant`). */
  readonly dormant: boolean;
  readonly chains: ReadonlyMap<string, CurrentChain>;
  readonly sets: ReadonlyMap<string, CurrentSet>;
  readonly maps: ReadonlyMap<string, CurrentMap>;
  /** Handles of chains, by name, as far as they are known. */
  readonly handles: ReadonlyMap<string, number>;
}

/** The chain as we applied it, or a chain whose rules in the kernel are unknown. */
export type CurrentChain = Chain | UnknownChain;

interface UnknownChain {
  readonly base: BaseChain | null;
  readonly rules: null;
}

export interface CurrentSet {
  /** Null: the keys are of a kind that no set of ours has. */
  readonly family: Family | null;
  readonly key: SetKey;
  readonly interval: boolean;
  /** Null: the set has elements that no set of ours has, so it is flushed and filled again. */
  readonly members: SetMembers | null;
  /** flags timeout: the elements are not read, `members` is empty. */
  readonly timed?: boolean;
}

/** A VerdictMap as we filled it, or one that was read from the kernel. */
export interface CurrentMap {
  /**
   * As in VerdictMap; 'other': not a verdict map, or keys of a length that no map of ours has. The
   * kernel's answer has only the length: marks are read as IPv4 addresses.
   */
  readonly key: MapKey | 'other';
  readonly family: Family | null;
  readonly interval: boolean;
  /** Known only for maps that we filled. */
  readonly fixed?: boolean;
  /** Null: the map has elements that no map of ours has, so it is flushed and filled again. */
  readonly keys: Uint8Array | null;
  readonly targets: Uint32Array;
  readonly verdicts: readonly ChainVerdict[];
}

export const EMPTY_STATE: CurrentState = {
  table: false,
  dormant: false,
  chains: new Map(),
  sets: new Map(),
  maps: new Map(),
  handles: new Map(),
};

/** The current state after a ruleset has been applied. */
export function stateAfter(
  { chains, sets, maps }: Ruleset,
  handles: CurrentState['handles'] = EMPTY_STATE.handles,
): CurrentState {
  return { table: true, dormant: false, chains, sets, maps, handles };
}

/**
 * Whether the chain in the kernel has the rules of `chain`. A fixed chain is named for its content,
 * so two fixed chains of one name have the same rules.
 */
export function holdsChain(current: CurrentChain, chain: Chain): boolean {
  if (current.rules === null) return false;
  if (current === chain || (current.fixed && chain.fixed)) return true;
  return (
    current.rules.length === chain.rules.length &&
    current.rules.every((rule, i) => rule === chain.rules[i] || isDeepStrictEqual(rule, chain.rules[i]))
  );
}

/**
 * Whether the maps are known to be equal without a comparison: the same object, or both named for
 * their content.
 */
export function isKnownMap(current: CurrentMap, map: VerdictMap): boolean {
  return current === map || (map.fixed && current.fixed === true);
}

/** Whether both maps can have the same keys. */
export function sameKeys({ key, family }: CurrentMap, map: VerdictMap): boolean {
  return key !== 'other' && mapKeyLength({ key, family }) === mapKeyLength(map);
}

/** Compares the properties of a base chain that can't be changed in place. */
export function sameHook(a: BaseChain | null, b: BaseChain | null): boolean {
  return a?.type === b?.type && a?.hook === b?.hook && a?.priority === b?.priority;
}

/**
 * Compares the property that can be changed in place: `add chain` sets the policy of an existing
 * chain.
 */
export function samePolicy(a: BaseChain | null, b: BaseChain | null): boolean {
  return a?.policy === b?.policy;
}

/**
 * Adds to the ruleset, without rules, our base chains that exist and that it no longer needs (that
 * of NodePort traffic is made when the first rule needs it, that of forwarded packets for
 * anti-spoofing, an extension's by its state). A base chain is never deleted: the kernel would then
 * drop every packet queued to NFQUEUE in that network namespace, also those queued by other tables.
 */
export function withUnusedBaseChains(desired: Ruleset, { chains }: Pick<CurrentState, 'chains'>): Ruleset {
  const bases = [
    ...[...Object.values(BASE_CHAINS), FORWARD].map(({ chain, base }) => [chain, base] as const),
    ...Object.entries(RULE_EXTENSION.transientBases(desired.chains)),
  ];
  const unused = bases.flatMap(([name, base]): Chain[] => {
    const there = chains.get(name);
    if (there === undefined || desired.chains.has(name) || !sameHook(there.base, base)) return [];
    return [{ ...plainChain(name, []), base }];
  });
  if (unused.length === 0) return desired;
  const all = [...desired.chains.values(), ...unused];
  return { ...desired, chains: new Map(all.map((chain) => [chain.name, chain])) };
}
