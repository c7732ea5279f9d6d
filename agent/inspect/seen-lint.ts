import type { SeenFindingKind } from '../../apis/lint/finding.ts';
import type { NodeFlow, NodeFlows } from '../../apis/node-flows.ts';
import type { Direction } from '../../apis/objects.ts';
import type { CountedRule, RuleCounts } from '../../apis/rule-counts.ts';
import { addToList } from '../../lib/sharing/lists.ts';
import { foldedPeer } from '../flows/flow-kind.ts';
import { type RuleWidth, ruleKey, unusedRules } from './rule-counts.ts';

/** Something that was seen, or was not, about a rule in force. */
export interface SeenFinding {
  readonly kind: SeenFindingKind;
  readonly direction: Direction;
  readonly policy: string;
  readonly rule: string;
  /** Where the rule is in force; failsafe-in-effect: where the flows were seen. */
  readonly nodes: readonly string[];
  /** Since when it is counted and its flows are seen, on all of these nodes (ISO 8601). */
  readonly since: string;
  /**
   * The time at which a packet last matched (ISO 8601), for not-hit. Null: none ever did, or
   * another finding.
   */
  readonly lastHit: string | null;
  /** For wider-than-seen; null for the others. */
  readonly width: RuleWidth | null;
  /** Networks (/24, /64) of the other ends, and services, sorted; empty of not-hit. */
  readonly networks: readonly string[];
  readonly services: readonly string[];
}

/** A node's counts, and the flows that it saw. */
export interface NodeObservation {
  readonly counts: RuleCounts;
  /** Null: it keeps no flow inventory, so that only counters say something. */
  readonly flows: NodeFlows | null;
}

export interface SeenFindings {
  readonly findings: readonly SeenFinding[];
  /** Rules without a hit that are not counted for the whole window on all of their nodes. */
  readonly tooYoung: number;
  /** Nodes whose inventory sees flows for less than the window, or that keep none: sorted. */
  readonly unseen: readonly string[];
}

/** Up to so many networks and services are few. */
const FEW = { networks: 4, services: 4 } as const;
/** Milliseconds that an inventory may lack of the window: thousands of nodes answer later. */
const LATE = 3_600_000;
/** Prefixes of this length, or shorter, and so many ports, are many. */
const WIDE = { v4: 16, v6: 48, ports: 100 } as const;

/**
 * Findings about the rules in force on nodes, all nodes of a rule together, by policy and rule.
 *
 * @param from the begin of the window, in milliseconds since 1970: nothing is said of a rule whose
 * evidence does not reach back so far, but that the failsafe list is in effect
 */
export function seenLint(nodes: readonly NodeObservation[], from: number): SeenFindings {
  const { rules: unused, tooYoung } = unusedRules(
    nodes.map(({ counts }) => counts),
    from,
  );
  const notHit = unused.map(({ direction, policy, rule, nodes: where, since, lastHit }): SeenFinding => {
    const of = { direction, policy, rule, nodes: where.toSorted(), since: since ?? '', lastHit };
    return { kind: 'not-hit', ...of, width: null, networks: [], services: [] };
  });
  const findings = [...notHit, ...widerThanSeen(nodes, from), ...failsafeInEffect(nodes, from)];
  const key = ({ policy, direction, rule, kind }: SeenFinding) => `${policy} ${direction} ${rule} ${kind}`;
  return {
    findings: findings.sort((a, b) => (key(a) < key(b) ? -1 : 1)),
    tooYoung: tooYoung.length,
    unseen: nodes.flatMap((one) => (reachesBack(one, from) ? [] : one.counts.node)).sort(),
  };
}

function reachesBack({ flows }: NodeObservation, from: number): boolean {
  return flows !== null && Date.parse(flows.since) <= from + LATE;
}

function widerThanSeen(nodes: readonly NodeObservation[], from: number): SeenFinding[] {
  const spreads = new Map<string, { readonly rule: CountedRule; readonly on: NodeObservation[] }>();
  for (const one of nodes)
    for (const rule of one.counts.rules) {
      const key = ruleKey(rule);
      const known = spreads.get(key);
      if (known === undefined) spreads.set(key, { rule, on: [one] });
      else known.on.push(one);
    }
  const byRule = flowsByRule();
  return [...spreads.values()].flatMap(({ rule, on }) => {
    const { width, action, mode, direction, policy } = rule;
    if (width === undefined || action !== 'Allow' || mode === 'Audit') return [];
    if (!on.every((one) => reachesBack(one, from))) return [];
    const key = decidedKey(rule);
    const seen = on.map((one) => byRule(one));
    // Any of the flows of such a kind may be this rule's.
    if (seen.some((flows) => flows.has(ofAnybodyKey(rule)))) return [];
    const decided = seen.flatMap((flows) => flows.get(key) ?? []);
    if (decided.length === 0) return [];
    const networks = networksOf(decided);
    const services = servicesOf(decided);
    const hasFewPeers = networks !== null && networks.length <= FEW.networks && isWideIn(width, networks);
    const hasFewPorts =
      services !== null && services.length <= FEW.services && (width.ports ?? 0) >= WIDE.ports;
    if (!hasFewPeers && !hasFewPorts) return [];
    const since =
      on
        .map(({ flows }) => flows?.since ?? '')
        .toSorted()
        .at(-1) ?? '';
    return {
      kind: 'wider-than-seen',
      direction,
      policy,
      rule: rule.rule,
      since,
      lastHit: null,
      width,
      nodes: on.map(({ counts }) => counts.node).toSorted(),
      networks: hasFewPeers ? networks : [],
      services: hasFewPorts ? services : [],
    } as const;
  });
}

type Decided = Pick<CountedRule, 'direction' | 'traffic' | 'policy' | 'ruleIndex'>;

function decidedKey({ direction, traffic, policy, ruleIndex }: Decided): string {
  return `${direction} ${traffic} ${policy} ${ruleIndex}`;
}

/** Keys of kinds that stand for every peer and port. */
function ofAnybodyKey({ direction, traffic }: Pick<Decided, 'direction' | 'traffic'>): string {
  return `${direction} ${traffic}`;
}

/** The kinds of each node, by the rule that decides them, or as those of anybody; made once. */
function flowsByRule(): (node: NodeObservation) => ReadonlyMap<string, readonly NodeFlow[]> {
  const known = new Map<NodeObservation, Map<string, NodeFlow[]>>();
  return (node) => {
    const made = known.get(node);
    if (made !== undefined) return made;
    const byRule = new Map<string, NodeFlow[]>();
    for (const flow of node.flows?.flows ?? []) {
      const { direction, traffic, peer, allPorts, verdict, decision } = flow;
      const isOfAnybody = allPorts === true && peer.endsWith('/0') && verdict === 'Allow';
      if (isOfAnybody) addToList(byRule, ofAnybodyKey(flow), flow);
      if (decision === null || decision.policy === null || decision.ruleIndex === null) continue;
      const { policy, ruleIndex } = decision;
      addToList(byRule, decidedKey({ direction, traffic, policy, ruleIndex }), flow);
    }
    known.set(node, byRule);
    return byRule;
  };
}

/** Whether the rule is wide in a family of which something was seen. */
function isWideIn({ v4, v6 }: RuleWidth, networks: readonly string[]): boolean {
  const isSeen = (family: 4 | 6) => networks.some((one) => one.includes(':') === (family === 6));
  return (v4 !== null && v4 <= WIDE.v4 && isSeen(4)) || (v6 !== null && v6 <= WIDE.v6 && isSeen(6));
}

/** Null: some kind stands for every peer. */
function networksOf(flows: readonly NodeFlow[]): string[] | null {
  const found = new Set<string>();
  for (const { peer } of flows) {
    if (peer.endsWith('/0')) return null;
    found.add(peer.includes('/') ? peer : foldedPeer(peer, 'network'));
  }
  return [...found].sort();
}

/** Null: some kind stands for many ports. */
function servicesOf(flows: readonly NodeFlow[]): string[] | null {
  if (flows.some(({ allPorts }) => allPorts === true)) return null;
  const found = flows.map(({ protocol, port, icmpType }) => `${protocol} ${port ?? icmpType ?? ''}`.trim());
  return [...new Set(found)].sort();
}

function failsafeInEffect(nodes: readonly NodeObservation[], from: number): SeenFinding[] {
  const found = new Map<string, SeenFinding>();
  for (const { flows: seen } of nodes)
    for (const flow of seen?.flows ?? []) {
      const { decision, direction, lastSeen } = flow;
      // Times of flows are whole seconds, rounded down.
      const isOld = Date.parse(lastSeen) + 1_000 <= from;
      if (seen === null || decision?.reason !== 'failsafe' || isOld) continue;
      const [first] = decision.skipped;
      if (first === undefined) continue;
      const key = `${direction} ${first.policy} ${first.rule}`;
      const known = found.get(key);
      const join = (of: readonly string[] | undefined, more: readonly string[] | null) =>
        [...new Set([...(of ?? []), ...(more ?? [])])].sort();
      found.set(key, {
        kind: 'failsafe-in-effect',
        direction,
        ...first,
        lastHit: null,
        width: null,
        since: known === undefined || seen.since > known.since ? seen.since : known.since,
        nodes: join(known?.nodes, [seen.node]),
        networks: join(known?.networks, networksOf([flow])),
        services: join(known?.services, servicesOf([flow])),
      });
    }
  return [...found.values()];
}
