import { isDeepStrictEqual } from 'node:util';
import { type EgressSlot, type EgressTake, type NodeEgress, slotKey } from '../../apis/egress/node-egress.ts';
import { slotMark, takeMark } from './render/marks.ts';

/**
 * Keeps the slots and takes that the node had before and that no policy needs any more, as long as
 * their numbers are free: established connections go on by them, and no new one gets them.
 */
export function withLingering(before: NodeEgress | null, now: NodeEgress): NodeEgress {
  if (before === null || before === now) return now;
  const slots = added(before.slots, now.slots);
  const takes = added(before.takes, now.takes);
  if (slots === now.slots && takes === now.takes) return now;
  const ends = new Map(
    [...slots.values()].flatMap(({ node }) => {
      const peer = now.peers.get(node) ?? before.peers.get(node);
      return peer === undefined ? [] : [[node, peer] as const];
    }),
  );
  return { ...now, slots, takes, peers: added(ends, now.peers) };
}

function isOtherTake(before: EgressTake, now: EgressTake): boolean {
  if (before.kind === 'floating' || now.kind === 'floating') return !isDeepStrictEqual(before, now);
  if (before.interface !== now.interface) return true;
  // A saved state does not know the addresses of interfaces.
  return before.found !== undefined && !isDeepStrictEqual(before.found, now.found);
}

/** `now` itself if it has all of them. */
function added<K, V>(before: ReadonlyMap<K, V>, now: ReadonlyMap<K, V>): ReadonlyMap<K, V> {
  const missing = [...before].filter(([key]) => !now.has(key));
  return missing.length === 0 ? now : new Map([...now, ...missing]);
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
