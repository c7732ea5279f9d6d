import type { NodeState, ServiceSet } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { isSkippable } from '../../apis/exemptions.ts';
import { PROTOCOL_NUMBERS } from '../../apis/flow.ts';
import { BASELINE_PRIORITY } from '../../apis/order.ts';
import { resolvedPeers } from '../../apis/resolved-peers.ts';
import { Indexer } from '../render/index/dispatch.ts';
import { type IndexRule, type Peers, peersOf, servicePeers } from '../render/index/match-entry.ts';
import { type Explainer, explain } from './explain.ts';
import { everyRule, type RuleLookup, type RuleMatch, ruleList, ruleMatches } from './flow-match.ts';
import { IndexWalk } from './index-walk.ts';
import type { KnownFlow } from './known-flow.ts';

/**
 * As explain, for very many flows: rules that the index skips are not tested, and not considered.
 * Costs the index once.
 */
export function explainMany(state: NodeState, config: Config): Explainer {
  return explain(state, config, indexedRules(ruleMatches(state, config), state, config));
}

/** Lists that are not longer need no index. */
const SHORT = 64;

/**
 * Finds the rules of long lists by the rule index that the kernel would have, for many flows whose
 * addresses and ports are known. As in the kernel, the index only skips rules that cannot match;
 * that of failsafe traffic lacks the rules that this traffic skips, and evaluation goes on in that
 * of the baseline tier after a Pass.
 */
export function indexedRules(
  rules: readonly RuleMatch[],
  state: NodeState,
  config: Config,
  short = SHORT,
): RuleLookup {
  const every = everyRule(rules);
  const indexes = new Map<string, ListIndex>();
  for (const [list, own] of Map.groupBy(rules, ({ rule }) => ruleList(rule.source.direction, rule.traffic))) {
    if (own.length > short) indexes.set(list, new ListIndex(own, state, config));
  }
  return (flow, isProtected) => {
    const index = indexes.get(ruleList(flow.direction, flow.traffic));
    return index?.rulesFor(flow, isProtected) ?? every(flow, isProtected);
  };
}

type Variant = 'all' | 'kept';

/** The index of one list of rules, and the one for failsafe traffic. */
class ListIndex {
  readonly #byId: ReadonlyMap<string, RuleMatch>;
  readonly #walks: ReadonlyMap<string, IndexWalk>;
  readonly #hasBaseline: boolean;

  constructor(rules: readonly RuleMatch[], state: NodeState, config: Config) {
    this.#byId = new Map(rules.map((match) => [match.rule.id, match]));
    const walks = new Map<string, IndexWalk>();
    const indexer = new Indexer(({ name, dispatched, items }) => {
      walks.set(name, new IndexWalk(dispatched, items));
    });
    const services = new Map<ServiceSet, Peers>();
    const ofServices = (set: ServiceSet): Peers => {
      const known = services.get(set) ?? servicePeers(set);
      services.set(set, known);
      return known;
    };
    const entries = rules.map(({ rule }): IndexRule => {
      return { rule, chain: rule.id, peers: peersOf(resolvedPeers(rule, state, config), ofServices) };
    });
    this.#hasBaseline = rules.some(({ rule }) => rule.action === 'Pass');
    const isBaseline = ({ rule }: IndexRule): boolean =>
      this.#hasBaseline && rule.tierPriority === BASELINE_PRIORITY;
    for (const variant of ['all', 'kept'] as const) {
      const kept = entries.filter(({ rule }) => variant === 'all' || !isSkippable(rule));
      for (const isIn of [false, true]) {
        const own = kept.filter((entry) => isBaseline(entry) === isIn);
        indexer.dispatch(nameOf(variant, isIn), own, { scope: null, original: false, address: 'saddr' });
      }
    }
    this.#walks = walks;
  }

  /** Null if an address or a port of the flow is not known: the index needs them. */
  rulesFor(flow: KnownFlow, isProtected: boolean): readonly RuleMatch[] | null {
    const { protocol, peer, dstPort, srcPort } = flow;
    if (protocol === undefined || peer === undefined) return null;
    const name = PROTOCOL_NAMES.get(protocol) ?? protocol;
    if (PORTS.has(protocol) && (dstPort === undefined || srcPort === undefined)) return null;
    const packet = { address: peer, port: dstPort ?? 0, sourcePort: srcPort ?? 0 };
    const variant = isProtected ? 'kept' : 'all';
    const found: RuleMatch[] = [];
    for (const isBaseline of this.#hasBaseline ? [false, true] : [false]) {
      const index = nameOf(variant, isBaseline);
      const walk = this.#walks.get(`${index}-${name}`) ?? this.#walks.get(index);
      for (const { id } of walk?.tested(packet) ?? []) {
        const match = this.#byId.get(id);
        if (match !== undefined) found.push(match);
      }
    }
    return found;
  }
}

function nameOf(variant: Variant, isBaseline: boolean): string {
  return isBaseline ? `${variant}-baseline` : variant;
}

const PROTOCOL_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(PROTOCOL_NUMBERS).map(([name, number]) => [number, name]),
);
const PORTS: ReadonlySet<number> = new Set([
  PROTOCOL_NUMBERS.tcp,
  PROTOCOL_NUMBERS.udp,
  PROTOCOL_NUMBERS.sctp,
]);
