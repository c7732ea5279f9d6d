import {
  type Chain,
  type Match,
  matchedSet,
  type NftRule,
  type Ruleset,
  type Statement,
  targets,
} from '../../agent/render/ruleset.ts';
import { trafficOf } from '../../agent/render/topology.ts';
import { mapKeyLength, type VerdictMap } from '../../agent/render/verdict-map.ts';
import type { CompiledRule, NodeState, RuleSource } from '../../apis/compiled.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { elementsOf, protocolNumber } from '../tracer/match.ts';
import type { Packet } from '../tracer/packet.ts';
import { MAX_DEPTH } from '../tracer/walk.ts';

/**
 * What must hold of every ruleset, whatever the policies. Each finding is a line; none is right.
 * @param rules those that the ruleset was rendered from
 */
export function violations(ruleset: Ruleset, rules: readonly CompiledRule[]): string[] {
  return [
    ...references(ruleset),
    ...names(ruleset),
    ...elements(ruleset),
    ...[...ruleset.maps.values()].flatMap(verdictMap),
    ...ruleChains(ruleset, rules),
    ...depth(ruleset),
  ];
}

/** Always there, so that the first Reject rule is no change of structure. */
const UNUSED = ['refuse'];

/**
 * What a rule refers to exists; what exists is referred to, save a policy rule that no packet can
 * reach behind the others.
 */
function references({ chains, sets, maps }: Ruleset): string[] {
  const used = { chain: new Set<string>(UNUSED), set: new Set<string>(), map: new Set<string>() };
  for (const { rules, base, name } of chains.values()) {
    if (base !== null) used.chain.add(name);
    for (const { matches, statement } of rules) {
      for (const target of targets(statement)) used.chain.add(target);
      if (isLookUp(statement)) used.map.add(statement.map);
      for (const match of matches) {
        const set = matchedSet(match);
        if (set !== null) used.set.add(set);
      }
    }
  }
  for (const map of maps.values()) for (const chain of chainsOf(map)) used.chain.add(chain);
  const there = { chain: chains, set: sets, map: maps };
  return (['chain', 'set', 'map'] as const).flatMap((kind) => [
    ...[...used[kind]].filter((name) => !there[kind].has(name)).map((name) => `${kind} ${name} is missing`),
    ...[...there[kind].keys()]
      .filter((name) => !used[kind].has(name) && !(kind === 'chain' && isRuleChain(chains.get(name))))
      .map((name) => `${kind} ${name} is unused`),
  ]);
}

/** Where the elements of a map lead to; a verdict that none has leads nowhere. */
function chainsOf(map: VerdictMap | undefined): string[] {
  const used = new Set(map?.targets);
  return (map?.verdicts ?? []).flatMap(({ chain }, i) => (used.has(i) ? [chain] : []));
}

function isRuleChain(chain: Chain | undefined): boolean {
  return (chain?.source ?? null) !== null;
}

function names({ chains, sets, maps }: Ruleset): string[] {
  const found: string[] = [];
  const all = [...chains.keys(), ...sets.keys(), ...maps.keys()];
  for (const name of all) {
    if (!/^[A-Za-z][A-Za-z0-9_.-]{0,254}$/.test(name)) found.push(`${name} is no name for nft`);
  }
  // The kernel keeps sets and maps in one list of names.
  for (const name of sets.keys()) if (maps.has(name)) found.push(`${name} is a set and a map`);
  const comments = [
    ...[...sets.values()].map(({ comment }) => comment ?? ''),
    ...[...chains.values()].flatMap(({ rules }) => rules.map(({ comment }) => comment ?? '')),
  ];
  for (const comment of comments) {
    if (Buffer.byteLength(comment) > 128) found.push(`comment of more than 128 bytes: ${comment}`);
  }
  return found;
}

type LookUp = Extract<Statement, { readonly map: string }>;

function isLookUp(statement: Statement): statement is LookUp {
  return 'map' in statement;
}

/** The keys that a statement looks up, as a map has them. */
function keysOf(statement: LookUp): Pick<VerdictMap, 'key' | 'family'> {
  const key = statement.kind.replace('Map', '') as VerdictMap['key'];
  return { key, family: 'family' in statement ? statement.family : null };
}

/**
 * Sets as the kernel takes them, maps looked up by what they have keys of; intervals only where
 * they are declared, or in chains that stay.
 */
function elements({ chains, sets, maps }: Ruleset): string[] {
  const found: string[] = [];
  for (const { name, interval, members } of sets.values()) {
    if (interval !== members.prefixes.length > 0) found.push(`set ${name}: flag and members don't fit`);
  }
  for (const { name, fixed, rules } of chains.values()) {
    for (const { statement } of rules) {
      if (!isLookUp(statement)) continue;
      const { key, family } = keysOf(statement);
      const map = maps.get(statement.map);
      if (map !== undefined && (map.family !== family || map.key !== key)) {
        found.push(`chain ${name} looks up map ${map.name} by other keys`);
      }
    }
    if (!fixed && rules.some(hasAnonymousInterval)) {
      found.push(`chain ${name} changes in place and holds an anonymous interval set`);
    }
  }
  return found;
}

/** What ruleset.ts says of a map: packed, sorted, disjoint; an interval map is fixed. */
function verdictMap(map: VerdictMap): string[] {
  const { name, interval, fixed, keys, targets: places, verdicts } = map;
  const width = mapKeyLength(map) * (interval ? 2 : 1);
  if (keys.length !== width * places.length) return [`map ${name}: ${keys.length} bytes of ${width} each`];
  const found: string[] = [];
  const used = new Set(places);
  if ([...used].some((place) => place >= verdicts.length)) return [`map ${name}: no such verdict`];
  if (interval && !fixed) found.push(`map ${name} has intervals and changes in place`);
  const all = elementsOf(map);
  if (all.length === 0 && map.key === 'port') found.push(`map ${name} is empty`);
  let before = -1n;
  for (const { first, last } of all) {
    if (first <= before || last < first) found.push(`map ${name}: keys are not sorted and disjoint`);
    before = last;
  }
  return found;
}

/** A range that stands alone is a comparison, not a set. */
function hasAnonymousInterval({ matches }: NftRule): boolean {
  return matches.some(isAnonymousInterval);
}

function isAnonymousInterval(match: Match): boolean {
  switch (match.match) {
    case 'port':
      return match.ranges.length > 1 && match.ranges.some(([first, last]) => first !== last);
    case 'originalPort':
      return match.ranges.length > 1 && match.ranges.some(([first, last]) => first !== last);
    case 'notIn':
      return match.cidrs.length > 1;
    case 'portTuple':
      return match.tuples.some(
        ({ sourcePorts, ports }) =>
          ports[0] !== ports[1] || (match.withSourcePort && sourcePorts[0] !== sourcePorts[1]),
      );
    case 'icmp':
      return match.types.length > 1 && new Set(match.types.map(({ code }) => code === null)).size > 1;
    default:
      return false;
  }
}

/**
 * One nft rule for each family, and one more for each kind of service that nft can't say in the
 * same match, and for interface groups beside addresses.
 */
function ruleChains({ chains }: Ruleset, rules: readonly CompiledRule[]): string[] {
  const found: string[] = [];
  const own = [...chains.values()].filter(({ source }) => source !== null);
  const wanted = new Map(rules.map((rule) => [JSON.stringify(rule.source), rule]));
  const seen = new Set<string>();
  for (const chain of own) {
    const key = JSON.stringify(chain.source);
    const rule = wanted.get(key);
    if (rule === undefined) found.push(`chain ${chain.name} is for no rule`);
    else found.push(...ruleChain(chain, rule));
    if (seen.has(key)) found.push(`chain ${chain.name} is the second for its rule`);
    seen.add(key);
  }
  return found;
}

function ruleChain({ name, fixed, rules }: Chain, rule: CompiledRule): string[] {
  const found: string[] = [];
  if (!fixed) found.push(`chain ${name} is for a rule and not fixed`);
  if (rules.length === 0) found.push(`chain ${name} is empty`);
  if (rules.some(({ counter }) => !counter)) found.push(`chain ${name} does not count`);
  const texts = rules.map(({ matches }) => JSON.stringify(matches, bigintText));
  if (new Set(texts).size < texts.length) found.push(`chain ${name} says the same twice`);
  const kinds = new Set(rule.services.map(rule.traffic === 'NodePort' ? originalKindOf : kindOf));
  const peers = rule.peers.map(({ kind }) => (kind === 'any' || kind === 'interfaces' ? 1 : 2));
  const most = peers.reduce((all, count) => all + count, 0) * Math.max(1, kinds.size);
  if (rules.length > most) found.push(`chain ${name} has ${rules.length} rules, more than ${most}`);
  return found;
}

/** Services of one kind fit into one match. */
function kindOf(service: CompiledRule['services'][number]): string {
  switch (service.protocol) {
    case 'tcp':
    case 'udp':
    case 'sctp':
      return 'ports';
    case 'icmp':
    case 'icmpv6':
      return service.type === undefined ? 'whole protocols' : service.protocol;
    case 'igmp':
      return service.type === undefined && service.group === undefined
        ? 'whole protocols'
        : `igmp to ${service.group}`;
    default:
      return service.group === undefined ? 'whole protocols' : `protocols to ${service.group}`;
  }
}

/** nft can't put the port before NAT into a concatenation. */
function originalKindOf(service: CompiledRule['services'][number]): string {
  if (!('sourcePorts' in service || 'ports' in service)) {
    return kindOf(service) === 'ports' ? 'whole protocols' : kindOf(service);
  }
  return JSON.stringify([service.protocol, service.sourcePorts]);
}

function bigintText(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value;
}

/** Chains call each other less deep than the kernel allows, so none calls itself. */
function depth({ chains, maps }: Ruleset): string[] {
  const callees = new Map(
    [...chains.values()].map(({ name, rules }) => [
      name,
      rules.flatMap(({ statement }) =>
        isLookUp(statement) ? chainsOf(maps.get(statement.map)) : targets(statement),
      ),
    ]),
  );
  let level = [...chains.values()].filter(({ base }) => base !== null).map(({ name }) => name);
  for (let deep = 1; deep <= MAX_DEPTH; deep++) {
    level = [...new Set(level.flatMap((name) => callees.get(name) ?? []))];
    if (level.length === 0) return [];
  }
  return [`chains are called ${MAX_DEPTH} deep: ${level.join(', ')}`];
}

/**
 * How many rules an index by protocol, destination port and address can't spare a packet: those
 * that only something else tells apart (source ports, link groups, ICMP types), those that match
 * it, up to the one that decides. `decided` null: none does.
 */
export function candidates(state: NodeState, packet: Packet, decided: RuleSource | null): number {
  const traffic = packet.original !== null ? 'nodeport' : packet.direction;
  const own = state.rules.filter((rule) => trafficOf(rule) === traffic);
  const end = own.findIndex(({ source }) => source === decided);
  const upTo = end < 0 ? own : own.slice(0, end + 1);
  return upTo.filter((rule) => mayBePeer(rule, packet, state) && mayBeService(rule, packet)).length;
}

function mayBePeer(rule: CompiledRule, packet: Packet, state: NodeState): boolean {
  const [peer] = rule.peers;
  if (rule.peers.length > 1 || peer?.kind !== 'addresses') return true;
  const { family } = packet;
  const value = packet.direction === 'ingress' ? packet.src : packet.dst;
  const set = state.addressSets.get(peer.set);
  return set === undefined || hasMember(set.members, { family, value });
}

function mayBeService({ services }: CompiledRule, { protocol, dstPort, original }: Packet): boolean {
  if (services.length === 0) return true;
  const port = (original === null ? dstPort : original.dstPort) ?? -1;
  return services.some((service) => {
    if (protocolNumber(service.protocol) !== protocol) return false;
    if (!('ports' in service) || service.ports === undefined) return true;
    const [first, last] = service.ports;
    return first <= port && port <= last;
  });
}
