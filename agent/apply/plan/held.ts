import { isDeepStrictEqual } from 'node:util';
import type { Family } from '../../../lib/net/address.ts';
import type {
  BaseChain,
  Chain,
  ChainVerdict,
  Ruleset,
  SetKey,
  SetMembers,
  VerdictMap,
} from '../../render/ruleset.ts';

/**
 * What the kernel holds of our table, as far as it is known. After an apply of ours it is what was
 * applied: the very objects, so that what didn't change is told by identity. After a start or a
 * foreign change it is read from the kernel, and what can't be vouched for is unknown.
 */
export interface Held {
  /** Whether the table is there at all. */
  readonly table: boolean;
  /** The table is switched off (nft's flag `dormant`). */
  readonly dormant: boolean;
  readonly chains: ReadonlyMap<string, HeldChain>;
  readonly sets: ReadonlyMap<string, HeldSet>;
  readonly maps: ReadonlyMap<string, HeldMap>;
  /** Of the chains, by name, as far as they are known. */
  readonly handles: ReadonlyMap<string, number>;
}

/** The chain as we applied it, or one whose rules in the kernel are not known to be that. */
export type HeldChain = Chain | UnknownChain;

export interface UnknownChain {
  readonly base: BaseChain | null;
  readonly rules: null;
}

export interface HeldSet {
  /** Null: keys of another kind than sets of ours have. */
  readonly family: Family | null;
  readonly key: SetKey;
  readonly interval: boolean;
  /** Null: elements that no set of ours has, so all are taken out and put in again. */
  readonly members: SetMembers | null;
}

/** A VerdictMap as we filled it, or what was read of one. */
export interface HeldMap {
  /** As in VerdictMap; 'other': no verdict map, or by keys of another kind. */
  readonly family: Family | null | 'other';
  readonly interval: boolean;
  /** Only of what we filled. */
  readonly fixed?: boolean;
  /** Null: elements that no map of ours has, so all are taken out and put in again. */
  readonly keys: Uint8Array | null;
  readonly targets: Uint32Array;
  readonly verdicts: readonly ChainVerdict[];
}

export const NOTHING_HELD: Held = {
  table: false,
  dormant: false,
  chains: new Map(),
  sets: new Map(),
  maps: new Map(),
  handles: new Map(),
};

/** What is held once a ruleset has been applied. */
export function heldAfter(
  { chains, sets, maps }: Ruleset,
  handles: Held['handles'] = NOTHING_HELD.handles,
): Held {
  return { table: true, dormant: false, chains, sets, maps, handles };
}

/**
 * Whether the rules are the chain's. A fixed chain is named for its content, so a known one of that
 * name is the same.
 */
export function holdsChain(held: HeldChain, chain: Chain): boolean {
  if (held.rules === null) return false;
  if (held === chain || (held.fixed && chain.fixed)) return true;
  return (
    held.rules.length === chain.rules.length &&
    held.rules.every((rule, i) => rule === chain.rules[i] || isDeepStrictEqual(rule, chain.rules[i]))
  );
}

/**
 * Whether nothing has to be looked at: the same object, or a map of ours that is named for its
 * content.
 */
export function isKnownMap(held: HeldMap, map: VerdictMap): boolean {
  return held === map || (map.fixed && held.fixed === true);
}

/** What of a base chain can't be changed in place. */
export function sameHook(a: BaseChain | null, b: BaseChain | null): boolean {
  return a?.type === b?.type && a?.hook === b?.hook && a?.priority === b?.priority;
}

/** What of it can: `add chain` sets the policy of one that is there. */
export function samePolicy(a: BaseChain | null, b: BaseChain | null): boolean {
  return a?.policy === b?.policy;
}
