import { type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import {
  type Candidacy,
  type EgressArrival,
  type EgressClass,
  type EgressOutcome,
  type EgressSlot,
  type EgressTake,
  type NodeEgress,
  type OwnedSlot,
  type ServedClass,
  slotKey,
  type TunnelEnd,
} from './node-egress.ts';

/**
 * A NodeEgress, but for its sets of members, as entries of parts: the unit of the stream, the state
 * file and node views. Keys are ids, numbers, names, addresses or ranges as text.
 */
export interface EgressValues {
  readonly sources: string | null;
  readonly pods: string | null;
  readonly subnets: string;
  readonly classes: EgressClass;
  readonly outcomes: EgressOutcome;
  readonly slots: Omit<EgressSlot, 'number'>;
  readonly peers: TunnelEnd;
  readonly arrivals: EgressArrival;
  readonly served: ServedClass;
  readonly takes: EgressTake;
  /** By slotKey. */
  readonly owned: OwnedSlot;
  readonly candidacies: Candidacy;
}
export type EgressPart = keyof EgressValues;
export type EgressEntries = { readonly [P in EgressPart]: ReadonlyMap<string, EgressValues[P]> };

export const EGRESS_PARTS = [
  'sources',
  'pods',
  'subnets',
  'classes',
  'outcomes',
  'slots',
  'peers',
  'arrivals',
  'served',
  'takes',
  'owned',
  'candidacies',
] as const satisfies readonly EgressPart[];

/** The sets of a NodeEgress: each is sent as a list of members. */
export const EGRESS_SETS = ['inside', 'nodes', 'floating'] as const satisfies (keyof NodeEgress)[];
export type EgressSet = (typeof EGRESS_SETS)[number];

/** Maps that are the same in both forms stay the same objects. */
export function toEntries(egress: NodeEgress): EgressEntries {
  const { sources, pods, subnets, classes, outcomes, slots, peers } = egress;
  const { arrivals, served, takes, owned, candidacies } = egress;
  return {
    sources,
    pods,
    subnets: new Map(
      subnets.map(({ family, range, class: id }) => [formatRange(family, range), id] as const),
    ),
    classes,
    outcomes,
    slots: new Map(slots.values().map(({ number, ...slot }) => [`${number}`, slot] as const)),
    peers,
    arrivals,
    served,
    takes: new Map(takes.entries().map(([number, take]) => [`${number}`, take] as const)),
    owned: new Map(owned.map((one) => [slotKey(one), one] as const)),
    candidacies: new Map(candidacies.map((one) => [one.gateway, one] as const)),
  };
}

export function fromEntries(
  entries: EgressEntries,
  rest: Pick<NodeEgress, 'tunnel' | 'unknownPods' | EgressSet>,
): NodeEgress {
  const { sources, pods, subnets, classes, outcomes, slots, peers } = entries;
  const { arrivals, served, takes, owned, candidacies } = entries;
  return {
    ...rest,
    sources,
    pods,
    subnets: [...subnets]
      .map(([text, id]) => ({ ...readRange(text), class: id }))
      .sort((a, b) => a.family - b.family || (a.range.first < b.range.first ? -1 : 1)),
    classes,
    outcomes,
    slots: new Map(byNumber(slots).map(([number, slot]) => [number, { number, ...slot }] as const)),
    peers,
    arrivals,
    served,
    takes: new Map(byNumber(takes)),
    owned: [...owned.values()].sort(
      (a, b) => compareText(a.gateway, b.gateway) || compareText(a.slot, b.slot),
    ),
    candidacies: [...candidacies.values()].sort((a, b) => compareText(a.gateway, b.gateway)),
  };
}

function byNumber<T>(map: ReadonlyMap<string, T>): (readonly [number, T])[] {
  return [...map].map(([key, value]) => [Number(key), value] as const).sort(([a], [b]) => a - b);
}

/** `FIRST-LAST`, or the address if it is one. */
export function formatRange(family: Family, { first, last }: Interval): string {
  const from = formatAddress({ family, value: first });
  return first === last ? from : `${from}-${formatAddress({ family, value: last })}`;
}

/** Reads `formatRange`. Throws if the text is not valid. */
export function readRange(text: string): { readonly family: Family; readonly range: Interval } {
  const [from = '', to = from, ...more] = text.split('-');
  const [first, last] = [parseAddress(from), parseAddress(to)];
  if (first === null || first.family !== last?.family || first.value > last.value || more.length > 0)
    throw new Error(`egress: ${JSON.stringify(text)} is not a valid range`);
  return { family: first.family, range: { first: first.value, last: last.value } };
}
