import type { PortRange } from '../../../apis/compiled.ts';
import { memo } from '../../../lib/sharing/memo.ts';
import { type Classes, PeerAddressSpace } from './classes.ts';
import type { MatchEntry, Peers } from './match-entry.ts';

/**
 * How to find the rules that can match a packet of one protocol: by its destination port, by the
 * peer's address, by both in either order, by the source port if many rules remain after these, or,
 * if that takes too much memory, in several parts one after the other.
 *
 * Bounds: at most REPLICATION × ownSize elements and list entries; if this limit allows it, a
 * packet tries at most SHORT rules that don't match it. Each cut adds two lookups.
 */
export type Plan = ListPlan | PortsPlan | AddressesPlan | SequencePlan;

interface Costs {
  /** Number of map elements and list entries. */
  readonly size: number;
  /** The most rules that one packet tries, up to the first that is sure to match it. */
  readonly tries: number;
}

/** Tries the rules in order. */
export interface ListPlan extends Costs {
  readonly kind: 'list';
  readonly items: readonly MatchEntry[];
}

export interface PortsPlan extends Costs {
  readonly kind: 'ports';
  readonly field: 'sport' | 'dport';
  readonly items: readonly MatchEntry[];
  /** Sorted. Pieces with the same rules have the same plan, an index into `plans`. */
  readonly ports: readonly number[];
  readonly planOfPort: readonly number[];
  readonly ranges: readonly PortRange[];
  readonly planOfRange: readonly number[];
  readonly plans: readonly Plan[];
  /** For the ports of no piece; null if no rule is for them. */
  readonly others: Plan | null;
  readonly byId?: PlansById;
}

export interface AddressesPlan extends Costs {
  readonly kind: 'addresses';
  readonly items: readonly MatchEntry[];
  readonly classes: Classes;
  /** By class. */
  readonly plans: readonly Plan[];
  /** For addresses without a class; null if no rule is for them. */
  readonly others: Plan | null;
  readonly byId?: PlansById;
}

/** Tries the parts one after the other. */
export interface SequencePlan extends Costs {
  readonly kind: 'sequence';
  readonly items: readonly MatchEntry[];
  readonly parts: readonly Plan[];
}

/**
 * Up to this many rules are tried instead of looked up: a lookup costs about as much as two rules.
 */
export const SHORT = 4;
export const REPLICATION = 8;
/**
 * The number of chains below the first chain of an index, if nothing else needs many: ports,
 * addresses, source ports, each in parts.
 */
export const LEVELS = 8;

/** Items and their replacements. */
type Replacements = readonly (readonly [was: MatchEntry, is: MatchEntry])[];

/**
 * The plan with some items replaced. A replacement has the same id and equals the item in
 * everything that the plan depends on. Parts without such items stay the same objects and are not
 * looked at.
 */
export function withReplacements(plan: Plan, replacements: Replacements): Plan {
  const own = replacementsIn(plan.items, replacements);
  if (own.length === 0) return plan;
  const items = plan.items.slice();
  for (const [was, is] of own) items[items.indexOf(was)] = is;
  // Nested plans may hold the copy of an item for any address (forAnyPeer).
  const within = (inner: Plan): Plan => withReplacements(inner, replacements);
  switch (plan.kind) {
    case 'list':
      return { ...plan, items };
    case 'ports':
    case 'addresses': {
      const { byId = plansById(plan.plans) } = plan;
      const plans = plan.plans.slice();
      for (const [{ id }] of own) {
        for (const i of byId.get(id) ?? []) plans[i] = within(plans[i] as Plan);
      }
      return { ...plan, items, plans, others: plan.others === null ? null : within(plan.others), byId };
    }
    case 'sequence':
      return { ...plan, items, parts: plan.parts.map(within) };
  }
}

/**
 * For the id of each item: the indexes of the plans that hold it. A plan has it once items of it
 * were replaced.
 */
type PlansById = ReadonlyMap<string, readonly number[]>;

function plansById(plans: readonly Plan[]): PlansById {
  const byId = new Map<string, number[]>();
  for (const [i, { items }] of plans.entries()) {
    for (const { id } of items) {
      const list = byId.get(id);
      if (list === undefined) byId.set(id, [i]);
      else if (list.at(-1) !== i) list.push(i);
    }
  }
  return byId;
}

/** Searches by identity, because most plans hold none of these few items. */
function replacementsIn(items: readonly MatchEntry[], replacements: Replacements): Replacements {
  let own: (readonly [MatchEntry, MatchEntry])[] | null = null;
  for (const other of replacements) {
    if (!items.includes(other[0])) continue;
    own ??= [];
    own.push(other);
  }
  return own ?? NO_REPLACEMENTS;
}

const NO_REPLACEMENTS: Replacements = [];

/**
 * Caches what repeated planning uses again. Address spaces: those of this round and of the one
 * before.
 */
export class PlanCache {
  /** The item with any address as peer, so that only the rule itself tests the address. */
  readonly forAnyPeer = memo((item: MatchEntry): MatchEntry => ({ ...item, peers: null, final: false }));
  /** The list of one rule. */
  readonly singleRuleList = memo(
    (item: MatchEntry): ListPlan => ({ kind: 'list', items: [item], size: 0, tries: 1 }),
  );
  #now: PeerAddressSpace[] = [];
  #before: PeerAddressSpace[] = [];

  space(peers: readonly Peers[]): PeerAddressSpace {
    const known = this.#now.find((space) => space.covers(peers));
    if (known !== undefined) return known;
    const space = this.#before.find((one) => one.covers(peers)) ?? new PeerAddressSpace(peers);
    this.#now.push(space);
    return space;
  }

  /** Begins a new round: spaces not used since the previous call are dropped. */
  next(): void {
    this.#before = this.#now;
    this.#now = [];
  }
}
