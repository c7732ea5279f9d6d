import { isDeepStrictEqual } from 'node:util';
import type { EgressTake, NodeEgress } from '../../apis/egress/node-egress.ts';
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

/**
 * The marks of slots and takes whose number means something else now: their connections would go on
 * by another gateway, or with another address. (Of source Node. Floating addresses move with their
 * slot, and connections with them: that is for the step that has leases.)
 */
export function reusedMarks(before: NodeEgress | null, now: NodeEgress | null): Set<number> {
  if (before === null || now === null) return new Set();
  const slots = [...before.slots].filter(([number, { node }]) => {
    const there = now.slots.get(number);
    return there !== undefined && there.node !== node;
  });
  const takes = [...before.takes].filter(([number, take]) => {
    const there = now.takes.get(number);
    return there !== undefined && isOtherTake(take, there);
  });
  return new Set([
    ...slots.map(([number]) => slotMark(number)),
    ...takes.map(([number]) => takeMark(number)),
  ]);
}
