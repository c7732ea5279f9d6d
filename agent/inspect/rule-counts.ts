import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { platformRows } from '../../apis/platform.ts';
import {
  type Count,
  type CountedRule,
  countedRule,
  NO_COUNT,
  type RuleCounts,
} from '../../apis/rule-counts.ts';
import type { FamilyMembers } from '../../lib/net/packed-keys.ts';
import { SPOOFED } from '../render/anti-spoofing.ts';
import { readState, readTotals } from './saved-state.ts';

/**
 * The key of a rule where the answers of several nodes are added up. Not the id alone: a node that
 * a third party has taken over can give any rule the id of another.
 */
export function ruleKey({ id, apiGroup, policy, direction, rule }: CountedRule): string {
  return JSON.stringify([id, apiGroup, policy, direction, rule]);
}

/** The same, with what this machine needs to carry pods, which rules without ports spare. */
export async function ruleCountsHere(stateDir: string, config: Config, policy?: string): Promise<RuleCounts> {
  const counts = await ruleCounts(stateDir, policy);
  // Loaded here: most who count rules ask the kernel for nothing else.
  const { platformNow } = await import('../run/interface-groups.ts');
  const entries = await platformNow(config).catch(() => null);
  return entries === null ? counts : { ...counts, platform: platformRows(entries) };
}

/** Reads files of the agent, and the kernel. Throws a CommandError if no rule was ever in force. */
export async function ruleCounts(stateDir: string, policy?: string): Promise<RuleCounts> {
  const state = await readState(stateDir);
  const { totals, since, remark } = await readTotals(stateDir, () => new Date().toISOString());
  const rules = state.rules
    .filter(({ source }) => policy === undefined || source.policy === policy)
    .map((rule) => {
      const width = rule.action === 'Allow' ? ruleWidth(rule, state) : null;
      const counted = { ...countedRule(rule, totals.get(rule.id)), since: since.get(rule.id) ?? null };
      return width === null ? counted : { ...counted, width };
    });
  return { node: state.node, rules, spoofed: countOf(totals.get(SPOOFED)), remark };
}

function countOf({ packets, bytes, lastHit }: Count = NO_COUNT): Count {
  return { packets, bytes, lastHit };
}

/** A rule that no packet matched on any of the nodes where it is in force. */
interface UnusedRule
  extends Pick<
    CountedRule,
    'direction' | 'tier' | 'policy' | 'apiGroup' | 'rule' | 'action' | 'mode' | 'traffic'
  > {
  readonly nodes: readonly string[];
  /** On any of them (ISO 8601); null: never. */
  readonly lastHit: string | null;
  /** Since when all of them count it (ISO 8601); null: not all do yet. */
  readonly since: string | null;
}

export interface UnusedRules {
  readonly rules: readonly UnusedRule[];
  /** Those without a hit that are counted for a shorter time than is asked for. */
  readonly tooYoung: readonly UnusedRule[];
  /** Rules in force on the nodes. */
  readonly all: number;
}

/**
 * The rules that no packet matched on any node: since they are counted, or since `from`
 * (milliseconds since 1970). In the order of evaluation on the first node that has them.
 */
export function unusedRules(counts: Iterable<RuleCounts>, from: number | null): UnusedRules {
  const found = new Map<string, Together>();
  for (const { node, rules } of counts)
    for (const rule of rules) {
      const key = ruleKey(rule);
      const known = found.get(key);
      if (known === undefined) found.set(key, ofOne(rule, node));
      else add(known, rule, node);
    }
  const unhit = [...found.values()].filter(({ lastHit }) => !isAfter(lastHit, from));
  // null: a rule that is not counted yet says nothing.
  const isOld = ({ since }: UnusedRule): boolean =>
    since !== null && (from === null || Date.parse(since) <= from);
  return {
    rules: unhit.filter(isOld),
    tooYoung: unhit.filter((rule) => !isOld(rule)),
    all: found.size,
  };
}

interface Together extends UnusedRule {
  readonly nodes: string[];
  lastHit: string | null;
  since: string | null;
}

function ofOne(counted: CountedRule, node: string): Together {
  const { direction, tier, policy, apiGroup, rule, action, mode, traffic, since } = counted;
  const same = { direction, tier, policy, apiGroup, rule, action, mode, traffic };
  return { ...same, nodes: [node], lastHit: hitOf(counted), since };
}

function add(known: Together, counted: CountedRule, node: string): void {
  known.nodes.push(node);
  known.lastHit = later(known.lastHit, hitOf(counted));
  known.since = known.since === null || counted.since === null ? null : later(known.since, counted.since);
}

/** A counter of packets has a last hit; of one that was not saved in time that is unknown. */
function hitOf({ packets, lastHit, since }: CountedRule): string | null {
  return packets > 0 ? (lastHit ?? since) : null;
}

function later(a: string | null, b: string | null): string | null {
  if (a === null || b === null) return a ?? b;
  return Date.parse(a) > Date.parse(b) ? a : b;
}

function isAfter(lastHit: string | null, from: number | null): boolean {
  return lastHit !== null && (from === null || Date.parse(lastHit) > from);
}

/** How much a rule matches at most. */
export interface RuleWidth {
  /** Length of its shortest prefix of the family; 0: any address. Null: it has no address of it. */
  readonly v4: number | null;
  readonly v6: number | null;
  /** Destination ports of its widest service; null: it matches protocols without ports alone. */
  readonly ports: number | null;
}

const ALL_PORTS = 65_536;

/** Null: it matches by link groups or Services, which have no width. */
export function ruleWidth(
  { peers, services }: CompiledRule,
  { addressSets }: Pick<NodeState, 'addressSets'>,
): RuleWidth | null {
  const isAny = peers.some(({ kind }) => kind === 'any');
  if (!isAny && !peers.every(({ kind }) => kind === 'addresses')) return null;
  const sets = peers.flatMap((peer) => (peer.kind === 'addresses' ? (addressSets.get(peer.set) ?? []) : []));
  const shortest = (family: 'v4' | 'v6'): number | null =>
    isAny ? 0 : least(sets.flatMap(({ members }) => shortestOf(members[family]) ?? []));
  const ports = services.flatMap((service) => {
    if (!('ports' in service || 'sourcePorts' in service)) return hasPorts(service.protocol) ? ALL_PORTS : [];
    const [first, last] = service.ports ?? [0, ALL_PORTS - 1];
    return last - first + 1;
  });
  return {
    v4: shortest('v4'),
    v6: shortest('v6'),
    ports: services.length === 0 ? ALL_PORTS : ports.length === 0 ? null : Math.max(...ports),
  };
}

function hasPorts(protocol: string | number): boolean {
  return protocol === 'tcp' || protocol === 'udp' || protocol === 'sctp';
}

/** Single addresses count as prefixes of their whole length. */
function shortestOf({ family, singles, prefixes }: FamilyMembers): number | null {
  const lengths = prefixes.map(({ length }) => length);
  return least(singles.length > 0 ? [...lengths, family === 4 ? 32 : 128] : lengths);
}

function least(numbers: readonly number[]): number | null {
  return numbers.length === 0 ? null : Math.min(...numbers);
}
