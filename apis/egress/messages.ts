import { formatMembers, memberTotal } from '../../lib/net/member-set.ts';
import { BucketMap } from '../../lib/sharing/bucket-map.ts';
import {
  EGRESS_PARTS,
  EGRESS_SETS,
  type EgressEntries,
  type EgressPart,
  type EgressSet,
  toEntries,
} from './entries.ts';
import { toWrittenEntry } from './entry-json.ts';
import type { NodeEgress, TunnelEnd } from './node-egress.ts';

/**
 * Messages of stage 3 for egress gateways. A whole NodeEgress is an `egress` message, then its sets
 * and its entries, empty ones left out.
 */
export type EgressWholeMessage = EgressMessage | EgressMembersMessage | EgressEntriesMessage;

/** The feature gate EgressGateway is on. */
export interface EgressMessage {
  readonly type: 'egress';
  readonly unknownPods: NodeEgress['unknownPods'];
  readonly tunnel: TunnelEnd | null;
}

/** Replaces the members of a set. */
interface EgressMembersMessage {
  readonly type: 'egressMembers';
  readonly set: EgressSet;
  /** CIDRs and addresses, sorted. */
  readonly members: readonly string[];
}

/** Replaces the entries of a part whose keys are in this bucket (lib/sharing/bucket-map.ts). */
interface EgressEntriesMessage {
  readonly type: 'egressEntries';
  readonly part: EgressPart;
  readonly bucket: number;
  readonly entries: WrittenEntries;
}

/** By key; written by entry-json.ts. */
export type WrittenEntries = Readonly<Record<string, unknown>>;

/**
 * The number of buckets of a part: only the pods of a gateway are so many that an agent which
 * reaches another controller should not receive all of them again if one is different.
 */
export function bucketsOf(part: EgressPart): number {
  return part === 'arrivals' ? 1024 : 1;
}

export function egressMessage({ unknownPods, tunnel }: NodeEgress): EgressMessage {
  return { type: 'egress', unknownPods, tunnel };
}

/** A set or a bucket of a NodeEgress that is not empty. */
interface EgressObject {
  /** Unique in the NodeEgress. */
  readonly id: string;
  /** The object that it was made from: as long as that is the same, so is the message. */
  readonly of: object;
  readonly toMessage: () => EgressMembersMessage | EgressEntriesMessage;
}

export function* egressObjects(egress: NodeEgress): Iterable<EgressObject> {
  for (const set of EGRESS_SETS) {
    const members = egress[set];
    if (memberTotal(members) === 0) continue;
    const toMessage = () => ({ type: 'egressMembers', set, members: formatMembers(members) }) as const;
    yield { id: set, of: members, toMessage };
  }
  const entries = toEntries(egress);
  for (const part of EGRESS_PARTS) {
    const { buckets } = BucketMap.of(entries[part] as ReadonlyMap<string, never>, bucketsOf(part));
    for (const [bucket, content] of buckets.entries()) {
      if (content.size === 0) continue;
      const toMessage = () =>
        ({ type: 'egressEntries', part, bucket, entries: toWrittenEntries(part, content) }) as const;
      yield { id: `${part}/${bucket}`, of: buckets.length === 1 ? egress[part] : content, toMessage };
    }
  }
}

/** All of a NodeEgress, as it is printed. */
export function toWrittenEgress(egress: NodeEgress): object {
  const entries = toEntries(egress);
  const written = <P extends EgressPart>(part: P) => [part, toWrittenEntries(part, entries[part])] as const;
  return {
    unknownPods: egress.unknownPods,
    tunnel: egress.tunnel,
    ...Object.fromEntries(EGRESS_SETS.map((set) => [set, formatMembers(egress[set])])),
    ...Object.fromEntries(EGRESS_PARTS.map(written)),
  };
}

export function toWrittenEntries<P extends EgressPart>(part: P, entries: EgressEntries[P]): WrittenEntries {
  return Object.fromEntries([...entries].map(([key, value]) => [key, toWrittenEntry(part, key, value)]));
}

/** The number of members and entries. */
export function egressSize(egress: NodeEgress): number {
  const { sources, pods, subnets, classes, outcomes, slots, peers } = egress;
  const { arrivals, served, takes, owned, candidacies } = egress;
  const maps = [sources, pods, classes, outcomes, slots, peers, arrivals, served, takes];
  const members = EGRESS_SETS.map((set) => memberTotal(egress[set]));
  const lists = [subnets, owned, candidacies];
  const sizes = [...members, ...maps.map(({ size }) => size), ...lists.map(({ length }) => length)];
  return sizes.reduce((total, size) => total + size, 0);
}

/** The message that empties an object that a receiver holds; null for an id of a newer version. */
export function emptyEgressObject(id: string): EgressMembersMessage | EgressEntriesMessage | null {
  const set = EGRESS_SETS.find((one) => one === id);
  if (set !== undefined) return { type: 'egressMembers', set, members: [] };
  const [name, bucket] = id.split('/');
  const part = EGRESS_PARTS.find((one) => one === name);
  if (part === undefined || !(Number(bucket) < bucketsOf(part))) return null;
  return { type: 'egressEntries', part, bucket: Number(bucket), entries: {} };
}
