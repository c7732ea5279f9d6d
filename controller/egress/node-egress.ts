import { isDeepStrictEqual } from 'node:util';
import type { EgressConfig } from '../../apis/egress/config.ts';
import {
  BY_ADDRESS,
  type EgressClass,
  type EgressPolicyName,
  type NodeEgress,
  type TunnelEnd,
} from '../../apis/egress/node-egress.ts';
import { NO_MEMBERS } from '../../lib/net/member-set.ts';
import { keptMap } from '../../lib/sharing/kept-map.ts';
import { compareText, sameItems } from '../../lib/sharing/lists.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { type Stepped, type Stepwise, stepped } from '../../lib/sharing/stepwise.ts';
import type { EgressPaths } from './allocation.ts';
import { type CompiledEgress, type EgressInput, egressCompiler } from './compile-egress.ts';
import type { GatewayArrivals } from './gateway-arrivals.ts';
import { type ChangedClasses, Gateways } from './gateway-index.ts';
import { type GatewayPools, gatewayPools, NO_POOLS } from './gateway-pools.ts';
import {
  hopsOf,
  type KnownRoute,
  nodeOutcomes,
  policyName,
  routeOf,
  type Served,
  SharedOutcomes,
  servedBy,
} from './route.ts';
import { tunnelEnds } from './tunnel-ends.ts';

/**
 * The share of one node, over one state of the objects after another; null: there is no Node of
 * that name.
 */
export function nodeEgressViewer(
  config: EgressConfig,
  node: string,
): (objects: EgressInput) => NodeEgress | null {
  const compile = egressCompiler(config);
  const view = nodeEgressCompiler(node);
  return (objects) => view(compile(objects)).get(node) ?? null;
}

/**
 * The share of each node, over one state after another: everything unchanged is the same JavaScript
 * object, and slots and takes keep their numbers.
 *
 * @param only the one node that is asked for; null: all
 */
export function nodeEgressCompiler(
  only: string | null = null,
): Stepped<CompiledEgress, ReadonlyMap<string, NodeEgress>> {
  let state: NodeViews | null = null;
  return stepped(function* (compiled) {
    const before = state ?? new NodeViews(only);
    // An exception leaves the state inconsistent, so the next call starts from scratch.
    state = null;
    const views = yield* before.advance(compiled);
    state = before;
    return views;
  });
}

interface RouteWithPaths extends KnownRoute {
  readonly paths: EgressPaths | undefined;
}

interface KnownClass {
  readonly class: EgressClass;
  readonly served: ReadonlyMap<string, readonly Served[]>;
}

/** The parts of the classes that are different from before. */
interface ClassChange {
  /** New, other destinations, or another route. */
  readonly changed: ReadonlySet<string>;
  readonly served: ChangedClasses;
}

class NodeViews {
  readonly #only: string | null;
  #last: CompiledEgress | null = null;
  #ends: ReadonlyMap<string, TunnelEnd> = new Map();
  /** By id of the decision. */
  readonly #known = new Map<string, RouteWithPaths>();
  readonly #classes = new Map<string, KnownClass>();
  readonly #gateways = new Gateways();
  #pools: ReadonlyMap<string, GatewayPools> = new Map();
  /** Numbers of slots by node. */
  readonly #numbers = new Map<string, ReadonlyMap<string, number>>();
  #views: ReadonlyMap<string, NodeEgress> = new Map();
  /** The classes of the sources of one node. */
  readonly #idsOf = memo(idsOf);
  /** The decisions of one class. */
  readonly #decisionsOf = memo(decisionsOf);

  constructor(only: string | null) {
    this.#only = only;
  }

  *advance(compiled: CompiledEgress): Stepwise<ReadonlyMap<string, NodeEgress>> {
    const last = this.#last;
    this.#last = compiled;
    const { nodes, inside, encryption } = compiled;
    const hasEnds = nodes === last?.nodes && inside.leftOut === last.inside.leftOut;
    const ends = hasEnds ? this.#ends : keptMap(tunnelEnds(nodes, inside.leftOut, encryption), this.#ends);
    const changesEnds = ends !== this.#ends;
    this.#ends = ends;
    if (compiled.allocations !== last?.allocations) {
      this.#pools = gatewayPools(compiled.allocations, this.#pools);
    }
    const classChange = yield* this.#advanceClasses(compiled, last);
    const gateways = yield* this.#gateways.advance(
      compiled,
      classChange.served,
      (id) => this.#classes.get(id)?.served,
    );
    const isStale = (node: string): boolean =>
      changesEnds ||
      compiled.subnets !== last?.subnets ||
      compiled.sources.get(node) !== last?.sources.get(node) ||
      compiled.pods.get(node) !== last?.pods.get(node) ||
      gateways.has(node) ||
      (classChange.changed.size > 0 &&
        this.#classIds(compiled, node).some((id) => classChange.changed.has(id)));
    const views = new Map<string, NodeEgress>();
    for (const { name } of compiled.nodes) {
      if (this.#only !== null && name !== this.#only) continue;
      const before = this.#views.get(name);
      const isKept = before !== undefined && !isStale(name);
      // A node that keeps its view costs less than a step.
      if (!isKept) yield;
      const view = isKept ? before : this.#build(name, compiled, before);
      const now = this.#withShared(view, name, compiled);
      views.set(name, before !== undefined && isSameView(before, now) ? before : now);
    }
    for (const name of this.#numbers.keys()) if (!views.has(name)) this.#numbers.delete(name);
    this.#views = keptMap(views, this.#views, Object.is);
    return this.#views;
  }

  *#advanceClasses(compiled: CompiledEgress, last: CompiledEgress | null): Stepwise<ClassChange> {
    const served = new Map<string, Map<string, readonly Served[] | undefined>>();
    const changed = new Set<string>();
    const isSame = compiled.classes === last?.classes && compiled.ways === last?.ways;
    if (isSame) return { changed, served };
    const outcomes = this.#advanceRoutes(compiled);
    const note = (node: string, id: string, list: readonly Served[] | undefined): void => {
      const ofNode = served.get(node) ?? new Map<string, readonly Served[] | undefined>();
      served.set(node, ofNode.set(id, list));
    };
    for (const [id, one] of compiled.classes) {
      yield;
      const before = this.#classes.get(id);
      if (before?.class === one && !this.#decisionsOf(one).some((id) => outcomes.has(id))) continue;
      // A class that was not there is that of moved sources only.
      if (before !== undefined) changed.add(id);
      const now = servedBy(one, this.#known);
      const same = new Map<string, readonly Served[]>();
      for (const [node, list] of now) {
        const was = before?.served.get(node);
        const isEqual = isDeepStrictEqual(was, list);
        same.set(node, was !== undefined && isEqual ? was : list);
        if (!isEqual) note(node, id, list);
      }
      for (const node of before?.served.keys() ?? []) if (!now.has(node)) note(node, id, undefined);
      this.#classes.set(id, { class: one, served: same });
    }
    for (const [id, { served: before }] of this.#classes) {
      if (compiled.classes.has(id)) continue;
      for (const node of before.keys()) note(node, id, undefined);
      this.#classes.delete(id);
    }
    return { changed, served };
  }

  /** The ids of decisions that are new, or whose outcomes are others. */
  #advanceRoutes({ decisions, ways }: CompiledEgress): Set<string> {
    const changed = new Set<string>();
    for (const [id, decision] of decisions) {
      const before = this.#known.get(id);
      const paths = ways.get(decision.key)?.paths;
      if (before?.decision === decision && before.paths === paths) continue;
      const route = routeOf(decision, ways);
      const same = before !== undefined && isDeepStrictEqual(before.route, route) ? before : null;
      const isAlike = same?.decision.policy?.spec.established === decision.policy?.spec.established;
      const outcomes = (isAlike ? same?.outcomes : null) ?? new SharedOutcomes();
      this.#known.set(id, { decision, paths, route: same?.route ?? route, outcomes });
      if (outcomes !== same?.outcomes) changed.add(id);
    }
    for (const id of this.#known.keys()) {
      if (!decisions.has(id)) this.#known.delete(id);
    }
    return changed;
  }

  #classIds({ sources, pods, subnets }: CompiledEgress, node: string): string[] {
    const own = [sources.get(node), pods.get(node)].flatMap((ids) => [...this.#idsOf(ids ?? NOTHING.pods)]);
    return [...new Set([...own, ...subnets.map((one) => one.class)])];
  }

  #build(node: string, compiled: CompiledEgress, before: NodeEgress | undefined): NodeEgress {
    const gateway = this.#gateways.get(node);
    const classes = this.#classIds(compiled, node)
      .sort(compareText)
      .flatMap((id) => compiled.classes.get(id) ?? []);
    const { outcomes, slots, numbers, ...own } = nodeOutcomes({
      node,
      ids: new Set(classes.flatMap((one) => [...this.#decisionsOf(one)])),
      known: this.#known,
      numbers: this.#numbers.get(node) ?? new Map(),
      reaches: (other) => this.#ends.has(node) && this.#ends.has(other),
      takeNumber: (take) => gateway?.numberOf(take),
    });
    this.#numbers.set(node, numbers);
    const refused = unique([...own.refused, ...(gateway?.isCrowded ? this.#untaken(node, gateway) : [])]);
    const others = new Set([...slots.values()].map((slot) => slot.node));
    for (const peer of gateway?.peers ?? []) others.add(peer);
    others.delete(node);
    return {
      ...NOTHING,
      tunnel: this.#ends.get(node) ?? null,
      sources: compiled.sources.get(node) ?? NOTHING.sources,
      pods: compiled.pods.get(node) ?? NOTHING.pods,
      subnets: compiled.subnets,
      classes: keptMap(new Map(classes.map((one) => [one.id, one])), before?.classes, Object.is),
      outcomes: keptMap(outcomes, before?.outcomes, Object.is),
      slots: keptMap(slots, before?.slots),
      peers: this.#peers(others, before?.peers),
      arrivals: gateway?.arrivals ?? NOTHING.arrivals,
      served: gateway?.servedClasses ?? NOTHING.served,
      takes: keptMap(gateway?.takes ?? NOTHING.takes, before?.takes),
      ...(refused.length === 0 ? {} : { refused }),
    };
  }

  /** The ends of these nodes, as far as they have one, sorted; `before` if they are the same. */
  #peers(nodes: ReadonlySet<string>, before: NodeEgress['peers'] = new Map()): NodeEgress['peers'] {
    const reached = [...nodes].filter((name) => this.#ends.has(name));
    const isSame = (name: string): boolean => before.get(name) === this.#ends.get(name);
    if (reached.length === before.size && reached.every(isSame)) return before;
    const ends = reached.sort(compareText).flatMap((name) => {
      const end = this.#ends.get(name);
      return end === undefined ? [] : [[name, end] as const];
    });
    return keptMap(new Map(ends), before);
  }

  /** The policies whose packets the gateway refuses, because their takes have no number. */
  #untaken(node: string, gateway: GatewayArrivals): EgressPolicyName[] {
    return [...this.#known.values()].flatMap(({ decision: { policy }, route }) => {
      const hops = hopsOf(route).filter((hop) => hop.node === node);
      const isTaken = hops.every((hop) => gateway.numberOf(hop.take) !== undefined);
      return policy === null || isTaken ? [] : [policyName(policy)];
    });
  }

  /** The view with the parts that do not depend on policies; itself if they are the same. */
  #withShared(view: NodeEgress, name: string, { inside, unknownPods }: CompiledEgress): NodeEgress {
    const { floating, owned, candidacies } = this.#pools.get(name) ?? NO_POOLS;
    const { members, nodes } = inside;
    const isSame =
      view.inside === members &&
      view.nodes === nodes &&
      view.unknownPods === unknownPods &&
      view.floating === floating &&
      view.owned === owned &&
      view.candidacies === candidacies;
    return isSame ? view : { ...view, inside: members, nodes, unknownPods, floating, owned, candidacies };
  }
}

const NOTHING: NodeEgress = {
  tunnel: null,
  inside: NO_MEMBERS,
  unknownPods: 'Pass',
  nodes: NO_MEMBERS,
  sources: new Map(),
  pods: new Map(),
  subnets: [],
  classes: new Map(),
  outcomes: new Map(),
  slots: new Map(),
  peers: new Map(),
  arrivals: new Map(),
  served: new Map(),
  takes: new Map(),
  ...NO_POOLS,
};

function idsOf(sources: ReadonlyMap<string, string | null>): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const id of sources.values()) if (id !== null && id !== BY_ADDRESS) ids.add(id);
  return ids;
}

function decisionsOf({ ipv4, ipv6 }: EgressClass): readonly string[] {
  return [...new Set([...ipv4, ...ipv6].map(({ outcome }) => outcome))];
}

function unique(policies: readonly EgressPolicyName[]): EgressPolicyName[] {
  const byName = new Map(policies.map((policy) => [JSON.stringify(policy), policy]));
  return [...byName].sort(([a], [b]) => compareText(a, b)).map(([, policy]) => policy);
}

function isSameView(a: NodeEgress, b: NodeEgress): boolean {
  return a === b || sameItems(Object.values(a), Object.values(b));
}
