import type { PortRange } from '../../../apis/compiled.ts';
import type { Classes } from './classes.ts';
import type { Item } from './item.ts';

/**
 * How to find the rules that can match a packet of one protocol: by its destination port, by the
 * peer's address, by both in either order, by the source port where these leave many, or, where
 * that would cost too much memory, the rules in several pieces one after the other.
 *
 * Bounds: at most REPLICATION × ownSize elements and list entries; and so long as that allows it a
 * packet tries at most SHORT rules that don't match it. Each cut adds two look-ups.
 */
export type Plan = ListPlan | PortsPlan | AddressesPlan | SequencePlan;

interface Costs {
  /** Elements of maps and entries of lists. */
  readonly size: number;
  /** The most rules that one packet tries, up to the first that is sure to match it. */
  readonly tries: number;
}

/** Tries the rules in order. */
export interface ListPlan extends Costs {
  readonly kind: 'list';
  readonly items: readonly Item[];
}

export interface PortsPlan extends Costs {
  readonly kind: 'ports';
  readonly field: 'sport' | 'dport';
  readonly items: readonly Item[];
  /** Sorted; pieces with the same rules have the same plan, as index into `plans`. */
  readonly ports: readonly number[];
  readonly planOfPort: readonly number[];
  readonly ranges: readonly PortRange[];
  readonly planOfRange: readonly number[];
  readonly plans: readonly Plan[];
  /** For the ports of no piece; null where no rule is for them. */
  readonly others: Plan | null;
}

export interface AddressesPlan extends Costs {
  readonly kind: 'addresses';
  readonly items: readonly Item[];
  readonly classes: Classes;
  /** By class. */
  readonly plans: readonly Plan[];
  /** For an address of no class; null where no rule is for it. */
  readonly others: Plan | null;
}

/** One after the other. */
export interface SequencePlan extends Costs {
  readonly kind: 'sequence';
  readonly items: readonly Item[];
  readonly parts: readonly Plan[];
}

/** So many rules are tried rather than looked up: a look-up costs about what two rules cost. */
export const SHORT = 4;
export const REPLICATION = 8;
/**
 * Chains below the one that an index begins with, where nothing else needs many: ports, addresses,
 * source ports, each in parts.
 */
export const LEVELS = 8;

/** Items and those that take their places. */
export type Others = readonly (readonly [was: Item, is: Item])[];

/**
 * The plan with other items in the place of some: with the same ids, and alike in all that it
 * depends on. What holds none of them is the same object, and is not looked at.
 */
export function withItems(plan: Plan, others: Others): Plan {
  const held = heldOthers(plan.items, others);
  if (held.length === 0) return plan;
  const items = plan.items.slice();
  for (const [was, is] of held) items[items.indexOf(was)] = is;
  // Below, an item may be as it is for anybody.
  const within = (inner: Plan): Plan => withItems(inner, others);
  const plansWithin = (plans: readonly Plan[]): readonly Plan[] => {
    const holders = holdersOf(plans);
    const changed = plans.slice();
    for (const [{ id }] of held)
      for (const i of holders.get(id) ?? []) changed[i] = within(changed[i] as Plan);
    holdersOfPlans.set(changed, holders);
    return changed;
  };
  switch (plan.kind) {
    case 'list':
      return { ...plan, items };
    case 'ports':
    case 'addresses': {
      const last = plan.others === null ? null : within(plan.others);
      return { ...plan, items, plans: plansWithin(plan.plans), others: last };
    }
    case 'sequence':
      return { ...plan, items, parts: plan.parts.map(within) };
  }
}

/** Which of a list of plans hold an item, by its id. */
type Holders = ReadonlyMap<string, readonly number[]>;

const holdersOfPlans = new WeakMap<readonly Plan[], Holders>();

function holdersOf(plans: readonly Plan[]): Holders {
  let holders = holdersOfPlans.get(plans);
  if (holders === undefined) {
    const found = new Map<string, number[]>();
    for (const [i, { items }] of plans.entries()) {
      for (const { id } of items) {
        const list = found.get(id);
        if (list === undefined) found.set(id, [i]);
        else if (list.at(-1) !== i) list.push(i);
      }
    }
    holders = found;
    holdersOfPlans.set(plans, holders);
  }
  return holders;
}

/** Looked for as pointers: most plans hold none of the few. */
function heldOthers(items: readonly Item[], others: Others): Others {
  let held: (readonly [Item, Item])[] | null = null;
  for (const other of others) {
    if (!items.includes(other[0])) continue;
    held ??= [];
    held.push(other);
  }
  return held ?? NO_OTHERS;
}

const NO_OTHERS: Others = [];
