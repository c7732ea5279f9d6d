import type {
  EgressOutcome,
  EgressPolicyName,
  EgressSlot,
  EgressTake,
} from '../../apis/egress/node-egress.ts';
import type { EgressPolicy } from '../../apis/egress/objects.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import type { EgressDecision } from './class.ts';
import { numbered } from './numbers.ts';
import type { EgressRoute, Hop } from './route.ts';

/** A decision with what all nodes have in common. */
export interface KnownRoute {
  readonly decision: EgressDecision;
  readonly route: EgressRoute;
  /** By its action: nodes that do the same share one object. */
  readonly outcomes: Map<string, EgressOutcome>;
}

export interface NodeOutcomesOptions {
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

export interface NodeOutcomes {
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
    return sharedOutcome(one, action);
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

function sharedOutcome({ decision, outcomes }: KnownRoute, action: Action): EgressOutcome {
  const key = JSON.stringify(action);
  const outcome = outcomes.get(key) ?? toOutcome(decision, action);
  outcomes.set(key, outcome);
  return outcome;
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
