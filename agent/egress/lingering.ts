import type { NodeEgress } from '../../apis/egress/node-egress.ts';

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

/** `now` itself if it has all of them. */
function added<K, V>(before: ReadonlyMap<K, V>, now: ReadonlyMap<K, V>): ReadonlyMap<K, V> {
  const missing = [...before].filter(([key]) => !now.has(key));
  return missing.length === 0 ? now : new Map([...now, ...missing]);
}
