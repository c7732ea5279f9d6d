import type { AddressSet, CompiledRule, NodeState, RuleSource, ServiceSet } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Direction } from '../../apis/objects.ts';
import { type ResolvedPeer, resolvedPeers } from '../../apis/resolved-peers.ts';
import { FAMILIES, type Family } from '../../lib/net/address.ts';
import { memberCount } from '../../lib/net/member-set.ts';
import { changedIds } from '../../lib/sharing/changed-map.ts';
import { errorMessage } from '../../lib/sharing/error.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { sameItems } from '../../lib/sharing/lists.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { type IncrementalMap, mapIncrementally, type UsedSets } from './incremental-list.ts';
import { type IndexRule, peersOf, servicePeers } from './index/match-entry.ts';
import { chainName, comment, ruleText } from './nft-text.ts';
import {
  type AddressAlternative,
  ANY_ADDRESS,
  isEmptySet,
  originalServiceMatches,
  type SetMatches,
  serviceMatches,
} from './rule-matches.ts';
import {
  type Chain,
  fixedChain,
  type Match,
  matchedSet,
  type NamedSet,
  type NftRule,
  plainRule,
  type Statement,
} from './ruleset.ts';
import { BASE_CHAINS, type IndexTraffic, trafficOf } from './topology.ts';
import { type AllRules, traitsOf } from './traits.ts';

/**
 * The families that the Nodes of a state have addresses of; both if that is unknown. For another
 * family there is no set for members that may be added later: a cluster with one family has one nft
 * rule for each policy rule.
 */
export function familiesOf({
  addressSets,
  allNodes,
}: Pick<NodeState, 'addressSets' | 'allNodes'>): readonly Family[] {
  const nodes = addressSets.get(allNodes)?.members;
  const found = FAMILIES.filter((family) => nodes && memberCount(family === 4 ? nodes.v4 : nodes.v6) > 0);
  const [only] = found;
  return found.length === 1 && only !== undefined ? ONLY[only] : FAMILIES;
}

const ONLY: Readonly<Record<Family, readonly Family[]>> = { 4: [4], 6: [6] };

/** TCP gets a reset, other protocols ICMP(v6) administratively prohibited. */
const REJECT: readonly NftRule[] = [
  plainRule({ kind: 'reject', with: 'tcp reset' }, { match: 'l4proto', protocols: ['tcp'] }),
  plainRule({ kind: 'reject', with: 'icmpx admin-prohibited' }),
];

/** The target of Reject rules. */
export const REJECT_CHAIN: Chain = fixedChain('refuse', REJECT);

/** The target of Pass rules: the baseline tier, then accept. */
export function passChainName(traffic: IndexTraffic): string {
  return `${BASE_CHAINS[traffic].index}-pass`;
}

/**
 * The verdict of a rule as one statement. A Reject needs a chain of its own, or it would take two
 * rules.
 */
function verdict(rule: CompiledRule): Statement {
  if (rule.mode === 'Audit') return { kind: 'return' };
  switch (rule.action) {
    case 'Allow':
      return { kind: 'accept' };
    case 'Drop':
      return { kind: 'drop' };
    case 'Reject':
      return { kind: 'goto', chain: REJECT_CHAIN.name };
    case 'Pass':
      return { kind: 'goto', chain: passChainName(trafficOf(rule)) };
  }
}

/** The inputs for rendering a rule, besides the rule itself. */
export interface RuleParts {
  readonly peers: readonly ResolvedPeer[];
  /** The families of the state (`familiesOf`). */
  readonly families: readonly Family[];
  readonly config: Pick<Config, 'log'>;
  readonly matches: SetMatches;
}

interface RenderedRule {
  /** Without rules if nothing can match. */
  readonly chain: Chain;
  /** The chain that writes the records; null if nothing is recorded. */
  readonly record: Chain | null;
  /** The named sets that the chain refers to. */
  readonly sets: readonly NamedSet[];
}

/** The chain of a policy rule, the chain of its records, and the sets it refers to. */
export function ruleChain(rule: CompiledRule, parts: RuleParts): RenderedRule {
  const { source } = rule;
  const record = rule.log === null ? null : recordChain(rule, parts.config.log);
  const statement: Statement = record === null ? verdict(rule) : { kind: 'goto', chain: record.name };
  const peers = parts.peers.flatMap((peer) => peerAlternatives(peer, source.direction, parts));
  const alternatives =
    rule.traffic === 'NodePort' ? originalServiceMatches(rule.services) : serviceMatches(rule.services);
  const rules: NftRule[] = [];
  for (const services of alternatives) {
    const needed = requiredFamily(services);
    for (const { family, matches } of peers) {
      if (family !== null && needed !== null && family !== needed) continue;
      rules.push({
        // Ports first: comparing them costs less than a set lookup.
        matches: [...services, ...matches],
        counter: true,
        statement,
        comment: comment(`${source.policy}/${source.rule}`),
      });
    }
  }
  // With ICMP of one family, the addresses of the other family are not used.
  const named = new Set(rules.flatMap(({ matches }) => matches.flatMap((match) => matchedSet(match) ?? [])));
  const name = chainName(
    trafficOf(rule),
    shortHash(10, rule.id, rules.map(ruleText)),
    `${source.policy}-${source.rule}`,
  );
  return {
    chain: { ...fixedChain(name, rules), source, ruleId: rule.id },
    record: rules.length === 0 ? null : record,
    sets: peers.flatMap(({ set }) => (set !== null && named.has(set.name) ? [set] : [])),
  };
}

/**
 * The matches for a peer, one alternative for each nft rule needed: of a set, one for each family.
 * Each peer has nft rules of its own, because one can't match "this interface or this set".
 */
function peerAlternatives(
  peer: ResolvedPeer,
  direction: Direction,
  { families, matches }: RuleParts,
): AddressAlternative[] {
  switch (peer.kind) {
    case 'any':
      return [ANY_ADDRESS];
    case 'interfaces': {
      const field = direction === 'ingress' ? 'iifgroup' : 'oifgroup';
      const groups = [...new Set(peer.groups)].sort((a, b) => a - b);
      return [
        { family: null, matches: [{ match: 'interfaceGroup', field, groups, negated: false }], set: null },
      ];
    }
    case 'addresses':
      return matches.addresses(peer.set, direction === 'ingress' ? 'saddr' : 'daddr', families);
    case 'services':
      return matches
        .services(peer.set)
        .filter(({ family, set }) => families.includes(family ?? 4) || (set !== null && !isEmptySet(set)));
  }
}

/** Bytes of a packet that are recorded; enough for any header and its ports. */
const RECORDED_BYTES = 128;
/**
 * How many messages the kernel may queue before it wakes the agent: one wake-up for many records
 * (nfnetlink_log.c).
 */
const QUEUE_THRESHOLD = 64;

/**
 * The chain that records the packet, then applies the rule's verdict. Not recorded are packets
 * above the limit, and later packets of a connection that is accepted and has no answer yet (a
 * one-way UDP flow), which are `new` to conntrack.
 */
function recordChain(rule: CompiledRule, config: Config['log']): Chain {
  const statement = verdict(rule);
  const audit = rule.mode === 'Audit';
  const letsThrough = audit || rule.action === 'Allow' || rule.action === 'Pass';
  const log = recordRule(`nodewall ${rule.id} ${rule.action}${audit ? ' audit' : ''}`, config);
  // Counted, so that the packets that match the rule and are not counted in this chain are those
  // that were not recorded.
  const later: NftRule = { ...plainRule(statement, { match: 'ctConfirmed' }), counter: true };
  // Rejects in this chain: chains may call each other at most 16 levels deep.
  const ends = rule.action === 'Reject' && !audit ? REJECT : [plainRule(statement)];
  const rules = [...(letsThrough ? [later] : []), log, ...ends];
  const { policy, rule: name } = rule.source;
  const record = chainName('record', shortHash(10, rule.id, rules.map(ruleText)), `${policy}-${name}`);
  return { ...fixedChain(record, rules), ruleId: rule.id };
}

/** Copies the packet to the flow log, within the limit. */
export function recordRule(prefix: string, { rate, burst, group }: Config['log']): NftRule {
  return {
    matches: rate === 0 ? [] : [{ match: 'limit', perSecond: rate, burst }],
    counter: true,
    statement: {
      kind: 'log',
      prefix,
      group,
      copyRange: RECORDED_BYTES,
      queueThreshold: QUEUE_THRESHOLD,
    },
    comment: null,
  };
}

function requiredFamily(matches: readonly Match[]): Family | null {
  for (const match of matches) {
    if (match.match === 'icmp') return match.protocol === 'icmp' ? 4 : 6;
    if (match.match === 'igmp') return 4;
    if (match.match === 'address') return match.family;
  }
  return null;
}

/** A rule that can't be expressed in nft. */
export class RenderError extends Error {
  override readonly name = 'RenderError';
  readonly source: RuleSource;

  constructor(source: RuleSource, cause: unknown) {
    super(`rule ${source.policy}/${source.rule}: ${errorMessage(cause)}`, {
      cause,
    });
    this.source = source;
  }
}

/** The chains and sets of a rule, and its entry for the index. */
interface IndexedRule {
  /** The sets that the rule names. */
  readonly sets: readonly (AddressSet | ServiceSet)[];
  readonly families: readonly Family[];
  readonly rendered: RenderedRule;
  readonly entry: IndexRule;
  readonly traits: number;
}

/** The inputs for rendering a rule, besides the rule itself. */
interface RuleContext {
  readonly families: readonly Family[];
  readonly sets: NodeState['addressSets'];
  readonly services: NodeState['serviceSets'];
}

/**
 * Renders all rules of a state, in order. A rule is rendered again if it, its AddressSet or its
 * ServiceSet is another object than before; if the result is equal, the previous object is reused.
 * Throws RenderError.
 */
export function ruleRenderer(
  config: Config,
  canLog: boolean,
  { sets, setMatches: matches }: { readonly sets: UsedSets; readonly setMatches: SetMatches },
): (state: NodeState) => AllRules {
  const known = new WeakMap<CompiledRule, IndexedRule>();
  const peersOfServices = memo(servicePeers);
  let last: (IncrementalMap<CompiledRule, IndexedRule> & RuleContext) | null = null;
  const entries = incrementalList(({ entry }: IndexedRule) => entry);
  const chains = incrementalList(({ rendered }: IndexedRule) => rendered.chain);
  const records = incrementalList(({ rendered }: IndexedRule) => rendered.record);
  const traits = incrementalList((one: IndexedRule) => one.traits);
  const ruleOf = (rule: CompiledRule, state: NodeState, families: readonly Family[]): IndexedRule => {
    try {
      const peers = resolvedPeers(rule, state, config);
      const own = peers.flatMap((peer) => ('set' in peer ? peer.set : []));
      const before = known.get(rule);
      if (before?.families === families && sameItems(before.sets, own)) return before;
      const parts = { peers, families, config, matches };
      const made = ruleChain(canLog ? rule : { ...rule, log: null }, parts);
      const same = before?.rendered.chain.name === made.chain.name;
      const rendered = same ? { ...before.rendered, sets: made.sets } : made;
      const entry = { rule, chain: rendered.chain.name, peers: peersOf(peers, peersOfServices) };
      const found = { sets: own, families, rendered, entry, traits: traitsOf(entry, rendered, peers) };
      known.set(rule, found);
      return found;
    } catch (error) {
      throw new RenderError(rule.source, error);
    }
  };
  return (state) => {
    const families = familiesOf(state);
    const kept = last?.families === families ? last : null;
    const others = new Set<string>();
    if (kept !== null) {
      for (const id of changedIds(kept.sets, state.addressSets)) others.add(id);
      for (const id of changedIds(kept.services, state.serviceSets)) others.add(id);
    }
    const isStale = (one: IndexedRule): boolean => one.sets.some(({ id }) => others.has(id));
    const mapped = mapIncrementally(
      kept,
      state.rules,
      (rule) => ruleOf(rule, state, families),
      others.size > 0 ? isStale : null,
    );
    const rendered = (rules: readonly IndexedRule[]) => rules.flatMap((one) => one.rendered.sets);
    sets.change(rendered(mapped.made), rendered(kept === null ? (last?.to ?? []) : mapped.gone));
    last = { ...mapped, families, sets: state.addressSets, services: state.serviceSets };
    const { to } = mapped;
    return { entries: entries(to), chains: chains(to), records: records(to), traits: traits(to) };
  };
}

/** Maps one list after another with `of`, reusing results. */
function incrementalList<T, U>(of: (element: T) => U): (now: readonly T[]) => readonly U[] {
  let last: IncrementalMap<T, U> | null = null;
  return (now) => {
    last = mapIncrementally(last, now, of);
    return last.to;
  };
}
