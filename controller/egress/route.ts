import { isDeepStrictEqual } from 'node:util';
import {
  type DestinationRange,
  type EgressDropReason,
  type EgressOutcome,
  type EgressPolicyName,
  type EgressSlot,
  type EgressTake,
  leaseName,
  slotKey,
} from '../../apis/egress/node-egress.ts';
import type { EgressPolicy } from '../../apis/egress/objects.ts';
import { FAMILIES, type Family } from '../../lib/net/address.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import type { EgressPath } from './allocation.ts';
import type { EgressDecision } from './class.ts';
import type { CompiledEgress } from './compile-egress.ts';
import { numbered } from './rendezvous.ts';

/** A gateway node that takes packets, and how it translates them. */
interface Hop {
  /** The way to the node; connections follow it where it moves to another node. */
  readonly slot: string;
  readonly node: string;
  readonly take: EgressTake;
  /** As in EgressSlot. */
  readonly floating?: string;
}

/** The meaning of a decision, on every node alike. */
type EgressRoute =
  | { readonly kind: 'pass' }
  | { readonly kind: 'direct' }
  | { readonly kind: 'drop'; readonly reason: EgressDropReason | 'policy' }
  | {
      readonly kind: 'hops';
      readonly hops: readonly Hop[];
      /** In the place of `hops`, in order, where a node does not reach them. */
      readonly reserve: readonly Hop[];
      /** The fate of packets where no gateway is reached. */
      readonly otherwise: 'Drop' | 'Direct';
    };

export function routeOf(
  { policy, key, family, isCrowded, isStray }: EgressDecision,
  ways: CompiledEgress['ways'],
): EgressRoute {
  if (isCrowded) return { kind: 'drop', reason: 'no-route' };
  if (policy === null) return { kind: 'pass' };
  const { action, whenUnavailable } = policy.spec;
  if (action === 'Direct') return { kind: 'direct' };
  if (action === 'Drop') return { kind: 'drop', reason: 'policy' };
  const way = ways.get(key);
  const path: EgressPath = way?.paths[family] ?? { kind: 'unavailable', reason: 'no-gateway' };
  // Answers to what a gateway serves go to the pod's node: no pod may claim an address outside.
  if (isStray && path.kind !== 'unavailable')
    return whenUnavailable === 'Direct' ? { kind: 'direct' } : { kind: 'drop', reason: 'no-route' };
  switch (path.kind) {
    case 'unavailable':
      return whenUnavailable === 'Direct' ? { kind: 'direct' } : { kind: 'drop', reason: path.reason };
    case 'node': {
      const take = { kind: 'node', interface: path.interface } as const;
      const toHop = ({ name }: { readonly name: string }): Hop => ({
        slot: `node ${name}`,
        node: name,
        take,
      });
      return {
        kind: 'hops',
        hops: path.nodes.map(toHop),
        reserve: path.reserve.map(toHop),
        otherwise: whenUnavailable,
      };
    }
    case 'floating': {
      const gateway = `${way?.gateway?.apiGroup}/${way?.gateway?.name}`;
      // All of the node's addresses: a packet does not say which of its slots it came by.
      const onNode = (node: string, of: Family): readonly string[] => {
        const own = way?.paths[of];
        return own?.kind === 'floating'
          ? own.parts.filter((part) => part.node === node).flatMap((part) => part.addresses)
          : [];
      };
      const floating = (slot: string) =>
        way?.gateway ? { floating: slotKey({ slot, gateway: leaseName(way.gateway) }) } : {};
      const hops = path.parts.map(({ slot, node }): Hop => {
        const take = { kind: 'floating', ipv4: onNode(node, 4), ipv6: onNode(node, 6) } as const;
        return { slot: `slot ${slot} ${gateway}`, node, take, ...floating(slot) };
      });
      return { kind: 'hops', hops, reserve: [], otherwise: 'Drop' };
    }
  }
}

/** All nodes that may take packets of the route. */
export function hopsOf(route: EgressRoute): readonly Hop[] {
  return route.kind === 'hops' ? [...route.hops, ...route.reserve] : [];
}

/** Equal takes have equal keys. */
export function takeKey(take: EgressTake): string {
  return take.kind === 'node' ? `node ${take.interface ?? ''}` : [...take.ipv4, ...take.ipv6].join();
}

/** Destinations that one gateway node takes from the pods of a class. */
export interface Served {
  readonly family: Family;
  readonly range: DestinationRange['range'];
  readonly take: EgressTake;
}

/**
 * By gateway node: what it takes from the pods of a class; adjacent destinations of a take are one.
 */
export function servedBy(
  { ipv4, ipv6 }: { readonly ipv4: readonly DestinationRange[]; readonly ipv6: readonly DestinationRange[] },
  routes: ReadonlyMap<string, { readonly route: EgressRoute }>,
): Map<string, Served[]> {
  const found = new Map<string, Served[]>();
  for (const family of FAMILIES) {
    for (const { range, outcome } of family === 4 ? ipv4 : ipv6) {
      const route = routes.get(outcome)?.route;
      for (const { node, take } of route === undefined ? [] : hopsOf(route)) {
        const list = found.get(node) ?? [];
        found.set(node, list);
        const last = list.at(-1);
        // Another slot of the same node, which takes them alike.
        if (last?.family === family && last.range.last >= range.last) continue;
        const joins =
          last?.family === family &&
          last.range.last + 1n === range.first &&
          takeKey(last.take) === takeKey(take);
        if (joins) list[list.length - 1] = { ...last, range: { first: last.range.first, last: range.last } };
        else list.push({ family, range, take });
      }
    }
  }
  return found;
}

/** A decision with what all nodes have in common. */
export interface KnownRoute {
  readonly decision: EgressDecision;
  readonly route: EgressRoute;
  readonly outcomes: SharedOutcomes;
}

interface NodeOutcomesOptions {
  readonly node: string;
  /** Ids of the decisions that the node's classes name. */
  readonly ids: ReadonlySet<string>;
  /** By id of the decision. */
  readonly known: ReadonlyMap<string, KnownRoute>;
  /** The numbers that slots have, by name. */
  readonly numbers: ReadonlyMap<string, number>;
  /** Whether the tunnel leads from this node to another. */
  readonly reaches: (node: string) => boolean;
  /** The number of a take of this node; undefined: none is left. */
  readonly takeNumber: (take: EgressTake) => number | undefined;
}

interface NodeOutcomes {
  readonly outcomes: ReadonlyMap<string, EgressOutcome>;
  readonly slots: ReadonlyMap<number, EgressSlot>;
  readonly numbers: ReadonlyMap<string, number>;
  /** Policies for which no number was left. */
  readonly refused: readonly EgressPolicyName[];
}

/** Finds how one node treats each decision that its classes name. */
export function nodeOutcomes(options: NodeOutcomesOptions): NodeOutcomes {
  const { node, ids, known, reaches, takeNumber } = options;
  const used = [...ids].sort(compareText).flatMap((id) => known.get(id) ?? []);
  const slots = new Map<string, Omit<EgressSlot, 'number'>>();
  const slotOf = (hop: Hop): string | null => {
    const take = hop.node === node ? takeNumber(hop.take) : 0;
    if (take === undefined || (take === 0 && !reaches(hop.node))) return null;
    const name = take === 0 ? hop.slot : `take ${take}`;
    const floating = hop.floating === undefined ? {} : { floating: hop.floating };
    slots.set(name, { node: hop.node, take, ...(take === 0 ? floating : {}) });
    return name;
  };
  const plans = used.map((one) => ({ one, plan: planOf(one.route, node, takeNumber, slotOf) }));
  const first = new Set(plans.flatMap(({ plan }) => (plan.kind === 'slots' ? plan.names : [])));
  const numbers = numbered(slots.keys(), options.numbers, first);
  const refused: EgressPolicyName[] = [];
  const outcomes = plans.map(({ one, plan }): EgressOutcome => {
    const { decision } = one;
    const action = plan.kind === 'slots' ? numberedAction(plan, numbers) : plan;
    const isRefused = plan.kind === 'slots' && plan.names.length > 0 && action.kind === 'drop';
    if (isRefused && decision.policy !== null) refused.push(policyName(decision.policy));
    return one.outcomes.of(decision, action);
  });
  const numberedSlots = [...slots].flatMap(([name, slot]) => {
    const number = numbers.get(name);
    return number === undefined ? [] : [{ number, ...slot }];
  });
  return {
    outcomes: new Map(outcomes.map((outcome) => [outcome.id, outcome])),
    slots: new Map(numberedSlots.sort((a, b) => a.number - b.number).map((slot) => [slot.number, slot])),
    numbers,
    refused,
  };
}

type Action = EgressOutcome['action'];

/** An action whose slots have names yet, not numbers. */
type Plan = Exclude<Action, { kind: 'slots' }> | SlotsPlan;

interface SlotsPlan {
  readonly kind: 'slots';
  readonly names: readonly string[];
  readonly reserve: readonly string[];
  readonly otherwise: 'Drop' | 'Direct';
}

function planOf(
  route: EgressRoute,
  node: string,
  takeNumber: NodeOutcomesOptions['takeNumber'],
  slotOf: (hop: Hop) => string | null,
): Plan {
  if (route.kind !== 'hops') return route;
  const [only, ...more] = route.hops;
  if (only?.node === node && more.length === 0) {
    const take = takeNumber(only.take);
    return take === undefined ? { kind: 'drop', reason: 'no-route' } : { kind: 'take', take };
  }
  const names = (hops: readonly Hop[]): string[] => hops.flatMap((hop) => slotOf(hop) ?? []);
  const { kind, otherwise } = { ...route, kind: 'slots' as const };
  return { kind, names: names(route.hops), reserve: names(route.reserve), otherwise };
}

function numberedAction(plan: SlotsPlan, numbers: ReadonlyMap<string, number>): Action {
  const [slots, reserve] = [plan.names, plan.reserve].map((names) =>
    names.flatMap((name) => numbers.get(name) ?? []),
  ) as [number[], number[]];
  if (slots.length === 0) return { kind: 'drop', reason: 'no-route' };
  return {
    kind: 'slots',
    slots: slots.sort((a, b) => a - b),
    ...(reserve.length === 0 ? {} : { reserve }),
    ...(plan.otherwise === 'Direct' ? { otherwise: plan.otherwise } : {}),
  };
}

/** The outcomes of one decision: nodes that do the same share one object. */
export class SharedOutcomes {
  #first: EgressOutcome | null = null;
  /** Further ones, by action: most decisions have none. */
  #others: Map<string, EgressOutcome> | null = null;

  of(decision: EgressDecision, action: Action): EgressOutcome {
    this.#first ??= toOutcome(decision, action);
    if (isDeepStrictEqual(this.#first.action, action)) return this.#first;
    this.#others ??= new Map();
    const key = JSON.stringify(action);
    const outcome = this.#others.get(key) ?? toOutcome(decision, action);
    this.#others.set(key, outcome);
    return outcome;
  }
}

function toOutcome({ id, policy, audited }: EgressDecision, action: Action): EgressOutcome {
  return {
    id,
    policy: policy === null ? null : policyName(policy),
    audited: audited.map(policyName),
    ...(policy?.spec.established === 'Recheck' ? { established: policy.spec.established } : {}),
    action,
  };
}

export function policyName({ kind, apiGroup, namespace, name }: EgressPolicy): EgressPolicyName {
  return { kind, apiGroup, namespace, name };
}
