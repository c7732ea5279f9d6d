import type { AddressSet, CompiledRule, NodeState, ServiceMember, ServiceSet } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Direction } from '../../apis/objects.ts';
import { BITS, type Cidr, FAMILIES, type Family, parseAddress } from '../../lib/net/address.ts';
import {
  coversFamily,
  type FamilyMembers,
  memberCount,
  packAddress,
  unpackAddress,
} from '../../lib/net/member-set.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { chainName, comment, serviceSetName, setName } from './name.ts';
import { ruleText } from './nft-text.ts';
import type { ResolvedPeer } from './rule-peers.ts';
import {
  type AddressField,
  type Chain,
  KEY_LENGTH,
  type Match,
  type NamedSet,
  type NftRule,
  type Statement,
} from './ruleset.ts';
import { originalServiceMatches, serviceMatches } from './service-match.ts';
import { BASE_CHAINS, type Traffic, trafficOf } from './topology.ts';

/**
 * How an nft rule matches an AddressSet in one family: a set, a single prefix, all addresses, or
 * none.
 */
type AddressMatch =
  | { readonly kind: 'set'; readonly set: NamedSet }
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'all' }
  | { readonly kind: 'none' };

/** By AddressSet, IPv4 and IPv6, so that rules with the same AddressSet share the same object. */
const addressMatches = new WeakMap<AddressSet, readonly [AddressMatch, AddressMatch]>();

function addressMatch(set: AddressSet, family: Family): AddressMatch {
  let matches = addressMatches.get(set);
  if (matches === undefined) {
    matches = [toAddressMatch(set, 4), toAddressMatch(set, 6)];
    addressMatches.set(set, matches);
  }
  return matches[family === 4 ? 0 : 1];
}

/**
 * A set whose members can change is always a named set, even while empty, so that a change of
 * members never changes rules. A fixed set of one prefix is written into the rule itself: the
 * kernel walks a table's sets one by one.
 */
function toAddressMatch(set: AddressSet, family: Family): AddressMatch {
  const members: FamilyMembers = family === 4 ? set.members.v4 : set.members.v6;
  if (coversFamily(members)) return { kind: 'all' };
  if (!set.dynamic && memberCount(members) === 0) return { kind: 'none' };
  if (!set.dynamic && memberCount(members) === 1) {
    const [prefix] = members.prefixes;
    return {
      kind: 'cidr',
      cidr: prefix ?? { ...unpackAddress(family, members.singles, 0), length: BITS[family] },
    };
  }
  const name = setName(set.id, family);
  const named: NamedSet = {
    name,
    family,
    key: 'address',
    interval: members.prefixes.length > 0,
    members,
    comment: comment(set.description),
  };
  return { kind: 'set', set: named };
}

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

/**
 * The matches for "`field` is in the set", one alternative for each family that can match. A set of
 * all addresses of both families is one alternative without a match.
 */
export function addressAlternatives(
  set: AddressSet | null,
  field: AddressField,
  families: readonly Family[],
): AddressAlternative[] {
  if (set === null) return [ANY_ADDRESS];
  const found = FAMILIES.flatMap((family) => {
    const match = addressMatch(set, family);
    // The addresses of an FQDN may be of either family.
    const unused = !families.includes(family) && set.names.length === 0;
    const empty = match.kind === 'set' && isEmpty(match.set.members);
    return unused && empty ? [] : [[family, match] as const];
  });
  if (found.length === 2 && found.every(([, match]) => match.kind === 'all')) return [ANY_ADDRESS];
  return found.flatMap(([family, match]) => alternative(family, match, field) ?? []);
}

function isEmpty({ singles, prefixes }: NamedSet['members']): boolean {
  return singles.length === 0 && prefixes.length === 0;
}

export interface AddressAlternative {
  /** Null: both families. */
  readonly family: Family | null;
  readonly matches: readonly Match[];
  /** The named set that the matches refer to; null if none. */
  readonly set: NamedSet | null;
}

const ANY_ADDRESS: AddressAlternative = { family: null, matches: [], set: null };

function alternative(family: Family, match: AddressMatch, field: AddressField): AddressAlternative | null {
  switch (match.kind) {
    case 'none':
      return null;
    case 'all':
      return { family, matches: [{ match: 'nfproto', family }], set: null };
    case 'cidr':
      return { family, matches: [{ match: 'address', family, field, in: { cidr: match.cidr } }], set: null };
    case 'set': {
      const { set } = match;
      return { family, matches: [{ match: 'address', family, field, in: { set: set.name } }], set };
    }
  }
}

/** TCP gets a reset, other protocols ICMP(v6) administratively prohibited. */
const REJECT: readonly NftRule[] = [
  {
    matches: [{ match: 'l4proto', protocols: ['tcp'] }],
    counter: false,
    statement: { kind: 'reject', with: 'tcp reset' },
    comment: null,
  },
  {
    matches: [],
    counter: false,
    statement: { kind: 'reject', with: 'icmpx admin-prohibited' },
    comment: null,
  },
];

/** The target of Reject rules. */
export const REJECT_CHAIN: Chain = {
  name: 'refuse',
  base: null,
  fixed: true,
  source: null,
  ruleId: null,
  rules: REJECT,
};

/** The target of Pass rules: the baseline tier, then accept. */
export function passChainName(traffic: Traffic): string {
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
}

export interface RenderedRule {
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
  const peers = parts.peers.flatMap((peer) => peerAlternatives(peer, source.direction, parts.families));
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
  const named = new Set(rules.flatMap(({ matches }) => matches.flatMap(setOf)));
  const name = chainName(
    trafficOf(rule),
    shortHash(10, rule.id, rules.map(ruleText)),
    `${source.policy}-${source.rule}`,
  );
  return {
    chain: { name, base: null, fixed: true, rules, source, ruleId: rule.id },
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
  families: readonly Family[],
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
      return addressAlternatives(peer.set, direction === 'ingress' ? 'saddr' : 'daddr', families);
    case 'services':
      return serviceAlternatives(peer.set).filter(
        ({ family, set }) => families.includes(family ?? 4) || (set !== null && !isEmpty(set.members)),
      );
  }
}

const knownServices = new WeakMap<ServiceSet, AddressAlternative[]>();

/** The members of a ServiceSet change, so each family has a set, even while it is empty. */
function serviceAlternatives(services: ServiceSet): AddressAlternative[] {
  let found = knownServices.get(services);
  if (found === undefined) {
    found = toServiceAlternatives(services);
    knownServices.set(services, found);
  }
  return found;
}

function toServiceAlternatives({ id, description, members }: ServiceSet): AddressAlternative[] {
  return FAMILIES.map((family) => {
    const set: NamedSet = {
      name: serviceSetName(id, family),
      family,
      key: 'service',
      interval: false,
      members: { singles: packServices(family, members), prefixes: [] },
      comment: comment(`services ${description}`),
    };
    return { family, matches: [{ match: 'serviceTuple', family, set: set.name }], set };
  });
}

const PROTOCOL_NUMBERS = { tcp: 6, udp: 17, sctp: 132 } as const;

function packServices(family: Family, members: readonly ServiceMember[]): Uint8Array {
  const keys = members.flatMap(({ address: text, protocol, port }) => {
    const address = parseAddress(text);
    if (address?.family !== family) return [];
    const key = Buffer.alloc(KEY_LENGTH.service[family]);
    key.set(packAddress(address));
    key.writeUInt8(PROTOCOL_NUMBERS[protocol], key.length - 8);
    key.writeUInt16BE(port, key.length - 4);
    return [key];
  });
  keys.sort(Buffer.compare);
  return Buffer.concat(keys.filter((key, i) => i === 0 || !key.equals(keys[i - 1] as Buffer)));
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
function recordChain(rule: CompiledRule, { rate, burst, group }: Config['log']): Chain {
  const statement = verdict(rule);
  const audit = rule.mode === 'Audit';
  const letsThrough = audit || rule.action === 'Allow' || rule.action === 'Pass';
  const plain = (matches: readonly Match[]): NftRule => ({
    matches,
    counter: false,
    statement,
    comment: null,
  });
  const log: NftRule = {
    matches: rate === 0 ? [] : [{ match: 'limit', perSecond: rate, burst }],
    counter: true,
    statement: {
      kind: 'log',
      prefix: `nodewall ${rule.id} ${rule.action}${audit ? ' audit' : ''}`,
      group,
      copyRange: RECORDED_BYTES,
      queueThreshold: QUEUE_THRESHOLD,
    },
    comment: null,
  };
  // Counted, so that the packets that match the rule and are not counted in this chain are those
  // that were not recorded.
  const later: NftRule = { ...plain([{ match: 'ctConfirmed' }]), counter: true };
  // Rejects in this chain: chains may call each other at most 16 levels deep.
  const ends = rule.action === 'Reject' && !audit ? REJECT : [plain([])];
  const rules = [...(letsThrough ? [later] : []), log, ...ends];
  const { policy, rule: name } = rule.source;
  return {
    name: chainName('record', shortHash(10, rule.id, rules.map(ruleText)), `${policy}-${name}`),
    base: null,
    fixed: true,
    rules,
    source: null,
    ruleId: rule.id,
  };
}

function setOf(match: Match): string[] {
  if (match.match === 'serviceTuple') return [match.set];
  return match.match === 'address' && 'set' in match.in ? [match.in.set] : [];
}

function requiredFamily(matches: readonly Match[]): Family | null {
  for (const match of matches) {
    if (match.match === 'icmp') return match.protocol === 'icmp' ? 4 : 6;
    if (match.match === 'igmp' || match.match === 'address') return 4;
  }
  return null;
}
