import { isSkippable, sparesLocalPods } from '../../apis/exemptions.ts';
import { BASELINE_PRIORITY } from '../../apis/order.ts';
import type { ResolvedPeer } from '../../apis/resolved-peers.ts';
import type { IndexRule } from './index/match-entry.ts';
import type { Chain } from './ruleset.ts';
import { type IndexTraffic, trafficOf } from './topology.ts';

/** Rules in evaluation order, each with its traits. */
export interface Rules {
  readonly entries: readonly IndexRule[];
  readonly traits: readonly number[];
  /** The union of all traits. */
  readonly any: number;
}

/** The rules of one traffic. */
export interface Share extends Rules {
  /** The rules' chains, each followed by its record chain, if any. */
  readonly chains: readonly Chain[];
}

/**
 * Properties of a rule that affect more than the rule itself, as bits: for 10,000 rules, numbers
 * are read instead of objects.
 */
export const TRAIT = {
  empty: 1,
  baseline: 2,
  passes: 4,
  skippable: 8,
  records: 16,
  egress: 32,
  nodeport: 64,
  names: 128,
  /** Packets to local pods skip it; and it names pods, so they do not. */
  sparesPods: 256,
  namesPods: 512,
} as const;

export function traitsOf(
  { rule }: IndexRule,
  { chain, record }: { readonly chain: Chain; readonly record: Chain | null },
  peers: ResolvedPeer[],
): number {
  const traffic = trafficOf(rule);
  return (
    // The chain has no rules: the peers are a fixed list that resolves to nothing.
    (chain.rules.length === 0 ? TRAIT.empty : 0) |
    (rule.tierPriority === BASELINE_PRIORITY ? TRAIT.baseline : 0) |
    (rule.action === 'Pass' && rule.mode === 'Enforce' ? TRAIT.passes : 0) |
    (isSkippable(rule) ? TRAIT.skippable : 0) |
    (sparesLocalPods(rule) ? TRAIT.sparesPods : 0) |
    (rule.source.namesPods === true ? TRAIT.namesPods : 0) |
    (record === null ? 0 : TRAIT.records) |
    (peers.some((peer) => peer.kind === 'addresses' && peer.set.names.length > 0) ? TRAIT.names : 0) |
    (traffic === 'ingress' ? 0 : TRAIT[traffic])
  );
}

function trafficOfTraits(traits: number): IndexTraffic {
  if (traits & TRAIT.nodeport) return 'nodeport';
  return traits & TRAIT.egress ? 'egress' : 'ingress';
}

/** All rules of a state, in order; four lists of the same length. */
export interface AllRules {
  readonly entries: readonly IndexRule[];
  readonly chains: readonly Chain[];
  readonly records: readonly (Chain | null)[];
  readonly traits: readonly number[];
}

export function byTraffic({
  entries,
  chains,
  records,
  traits,
}: AllRules): Readonly<Record<IndexTraffic, Share>> {
  const empty = () => ({ entries: [] as IndexRule[], traits: [] as number[], any: 0, chains: [] as Chain[] });
  const shares = { ingress: empty(), egress: empty(), nodeport: empty() };
  for (let i = 0; i < traits.length; i++) {
    const own = traits[i] ?? 0;
    if (own & TRAIT.empty) continue;
    const share = shares[trafficOfTraits(own)];
    share.entries.push(entries[i] as IndexRule);
    share.traits.push(own);
    share.any |= own;
    share.chains.push(chains[i] as Chain);
    if (own & TRAIT.records) share.chains.push(records[i] as Chain);
  }
  return shares;
}

/** The rules with the trait, or those without it. */
export function select({ entries, traits, any }: Rules, trait: number, wanted: boolean): Rules {
  if ((any & trait) === 0) return wanted ? { entries: [], traits: [], any: 0 } : { entries, traits, any };
  const isWanted = (_: unknown, i: number): boolean => (((traits[i] ?? 0) & trait) !== 0) === wanted;
  const kept = traits.filter(isWanted);
  return { entries: entries.filter(isWanted), traits: kept, any: kept.reduce((all, own) => all | own, 0) };
}
