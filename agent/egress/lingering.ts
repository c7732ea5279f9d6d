import { isDeepStrictEqual } from 'node:util';
import {
  type EgressSlot,
  type EgressTake,
  type NodeEgress,
  slotKey,
  type TunnelEnd,
} from '../../apis/egress/node-egress.ts';
import { BITS } from '../../lib/net/address.ts';
import { hasAddress } from '../../lib/net/member-set.ts';
import { changedIds } from '../../lib/sharing/changed-map.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { answerRoute, parseNetworks } from './render/answer-routes.ts';
import { slotMark, takeMark } from './render/marks.ts';

/** Ways back to single pods that are kept; those to the networks of nodes are few. */
const MOST_ANSWERS = 16_384;

/**
 * Keeps what the node had before and no policy needs any more, because established connections go
 * on by it, and no new one gets it: slots and takes, as long as their numbers are free, and at a
 * gateway the ways back to pods that it served.
 */
export function withLingering(before: NodeEgress | null, now: NodeEgress): NodeEgress {
  if (before === null || before === now) return now;
  const slots = merged(before.slots, now.slots);
  const takes = merged(before.takes, now.takes);
  const answers = answersAfter(before, now);
  const needed = new Set([...slots.values()].map(({ node }) => node));
  const told = withKnownKeys(before.peers, now.peers);
  const keys = new Set(told.values().map(({ key }) => key || undefined));
  // A gateway that joined again under another name: its device is one peer, with the newer end.
  const isFree = (key: string | undefined): boolean => !key || !keys.has(key);
  const peers = merged(before.peers, told, (node) => needed.has(node) && isFree(before.peers.get(node)?.key));
  if (slots === now.slots && takes === now.takes && peers === now.peers && answers.size === 0) return now;
  return { ...now, slots, takes, peers, ...(answers.size === 0 ? {} : { answers }) };
}

/**
 * `now`, with the keys that a controller does not know since it started anew: those of before of
 * the same ends. While it does not, no other end gets such a key. `now` itself if it has all.
 */
function withKnownKeys(before: NodeEgress['peers'], now: NodeEgress['peers']): NodeEgress['peers'] {
  const known = new Map<string, TunnelEnd>();
  for (const [node, end] of now) {
    const was = end.key === '' ? before.get(node) : undefined;
    if (was?.mac === end.mac && was.address === end.address && was.key) known.set(node, was);
  }
  if (known.size === 0) return now;
  const keys = new Set([...known.values()].map(({ key }) => key));
  return new Map(
    [...now].map(([node, end]) => {
      const was = known.get(node);
      if (was === undefined) return [node, keys.has(end.key) ? { ...end, key: '' } : end];
      const filled = { ...end, key: was.key ?? '' };
      return [node, isDeepStrictEqual(was, filled) ? was : filled];
    }),
  );
}

/** As NodeEgress.answers; the same object if nothing changed. */
function answersAfter(before: NodeEgress, now: NodeEgress): ReadonlyMap<string, TunnelEnd> {
  const last = before.answers ?? NO_ANSWERS;
  const next = new Map(last);
  const networksOf = memo(parseNetworks);
  for (const address of changedIds(before.arrivals, now.arrivals)) {
    // Another pod may have it, on another node.
    if (now.arrivals.has(address)) next.delete(`${address}/${address.includes(':') ? BITS[6] : BITS[4]}`);
    const arrival = before.arrivals.get(address);
    const peer = arrival === undefined ? undefined : before.peers.get(arrival.node);
    if (peer === undefined || now.arrivals.has(address)) continue;
    const route = answerRoute(address, peer, networksOf);
    if (route !== null) next.set(route.destination, peer);
  }
  const isThere = memo(({ address }: TunnelEnd) => hasAddress(now.nodes, address));
  for (const [destination, end] of next) {
    if (!isThere(end) || next.size > MOST_ANSWERS) next.delete(destination);
  }
  return hasSame(last, next) ? last : next;
}

const NO_ANSWERS: ReadonlyMap<string, TunnelEnd> = new Map();

function isOtherTake(before: EgressTake, now: EgressTake): boolean {
  if (before.kind === 'floating' || now.kind === 'floating') return !isDeepStrictEqual(before, now);
  if (before.interface !== now.interface) return true;
  // A saved state does not know the addresses of interfaces.
  return before.found !== undefined && !isDeepStrictEqual(before.found, now.found);
}

/** `now`, with what it lacks of `before`; one of the two if it is the same. */
function merged<K, V>(
  before: ReadonlyMap<K, V>,
  now: ReadonlyMap<K, V>,
  isKept: (key: K) => boolean = () => true,
): ReadonlyMap<K, V> {
  const missing = [...before].filter(([key]) => !now.has(key) && isKept(key));
  if (missing.length === 0) return now;
  const all = new Map([...now, ...missing]);
  return hasSame(before, all) ? before : all;
}

function hasSame<K, V>(a: ReadonlyMap<K, V>, b: ReadonlyMap<K, V>): boolean {
  return a.size === b.size && a.entries().every(([key, value]) => b.get(key) === value);
}

/** Connections that cannot go on as they were. */
export interface EndedConnections {
  /** By the bits of the mark that are ours. */
  readonly marks: ReadonlySet<number>;
  /** By the floating address that they leave with. */
  readonly addresses: ReadonlySet<string>;
  /** By mark as well, but only what is not an open connection of TCP: that one is reset. */
  readonly unopened: ReadonlySet<number>;
}

export function mergeEnded(a: EndedConnections, b: EndedConnections): EndedConnections {
  return {
    marks: a.marks.union(b.marks),
    addresses: a.addresses.union(b.addresses),
    unopened: a.unopened.union(b.unopened),
  };
}

/**
 * The connections whose entries in the kernel must go, so that their next packets are those of new
 * ones:
 *
 * - The number of a slot or a take means something else now: the connection would go on by another
 *   gateway, or with another address. A slot of a floating gateway is the same on another node.
 * - A floating slot moved from or to this node: the translation is made here, or no longer is.
 * - This node no longer owns an address: the new owner goes on with the connection, and what this
 *   node knows of it would be old when the address comes back.
 * - A slot's gateway no longer answers.
 */
export function endedConnections(before: NodeEgress | null, now: NodeEgress | null): EndedConnections {
  if (before === null || now === null) return { marks: new Set(), addresses: new Set(), unopened: new Set() };
  const came = ownedSlots(now).difference(ownedSlots(before));
  const slots = [...before.slots].filter(([number, slot]) => {
    const there = now.slots.get(number);
    return (there !== undefined && !isSameWay(slot, there)) || came.has(slot.floating ?? '');
  });
  const takes = [...before.takes].filter(([number, take]) => {
    const there = now.takes.get(number);
    return there !== undefined && isOtherTake(take, there);
  });
  return {
    marks: new Set([
      ...slots.map(([number]) => slotMark(number)),
      ...takes.map(([number]) => takeMark(number)),
    ]),
    addresses: ownedAddresses(before).difference(ownedAddresses(now)),
    unopened: new Set([...lostSlots(now).difference(lostSlots(before))].map(slotMark)),
  };
}

function lostSlots({ ended = new Set() }: NodeEgress): ReadonlySet<number> {
  return ended;
}

function ownedSlots({ owned }: NodeEgress): Set<string> {
  return new Set(owned.map(slotKey));
}

function ownedAddresses({ owned }: NodeEgress): Set<string> {
  return new Set(owned.flatMap(({ addresses }) => addresses));
}

function isSameWay(a: EgressSlot, b: EgressSlot): boolean {
  if (a.floating !== b.floating) return false;
  return a.floating === undefined ? a.node === b.node : a.take === b.take;
}

/** Facts that a node knows of its egress gateways besides its view, for its next process. */
export interface EgressMemory {
  /** The slots of open connections that no policy needs any more (withLingering). */
  readonly slots: readonly EgressSlot[];
  readonly takes: readonly (readonly [number, EgressTake])[];
  readonly peers: readonly TunnelEnd[];
  readonly answers: readonly (readonly [string, TunnelEnd])[];
  /** Names of gateway nodes that do not answer. */
  readonly lost: readonly string[];
}

/** @param known `told`, with what lingers */
export function toEgressMemory(
  known: NodeEgress | null,
  told: NodeEgress | null,
  lost: readonly string[],
): EgressMemory {
  return {
    slots: missing(told?.slots, known?.slots).map(([, slot]) => slot),
    takes: missing(told?.takes, known?.takes),
    // Those that no policy needs, and those whose key the controller did not say again.
    peers: [...(known?.peers ?? [])].flatMap(([node, end]) => {
      const now = told?.peers.get(node);
      return now === undefined || now.key !== end.key ? end : [];
    }),
    answers: [...(known?.answers ?? [])],
    lost,
  };
}

/** The state that an earlier process had in force; `told`: the view that it received last. */
export function withMemory(told: NodeEgress, memory: EgressMemory | null): NodeEgress {
  if (memory === null) return told;
  const { slots, takes, peers, answers } = memory;
  const former = new Map(peers.map((end) => [end.node, end] as const));
  return {
    ...told,
    slots: new Map([...slots.map((slot) => [slot.number, slot] as const), ...told.slots]),
    takes: new Map([...takes, ...told.takes]),
    peers: new Map([...former, ...withKnownKeys(former, told.peers)]),
    ...(answers.length === 0 ? {} : { answers: new Map(answers) }),
  };
}

function missing<K, V>(from: ReadonlyMap<K, V> = new Map(), all: ReadonlyMap<K, V> = new Map()): [K, V][] {
  return [...all].filter(([key]) => !from.has(key));
}
