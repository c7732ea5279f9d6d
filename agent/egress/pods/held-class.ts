import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { BITS, type Family } from '../../../lib/net/address.ts';

/** Id of a class and of its outcome; ids of others are hashes. */
const HELD = 'held';

/**
 * Where unknown pods pass, pods that wait for their gateways must not: they get a class that drops.
 * Elsewhere they are unknown, which costs no change of chains.
 */
export function withHeld(egress: NodeEgress, waiting: ReadonlySet<string>): NodeEgress {
  if (waiting.size === 0 || egress.unknownPods === 'Hold') return egress;
  const sources = new Map(egress.sources);
  for (const address of waiting) sources.set(address, HELD);
  const action = { kind: 'drop', reason: 'unknown-pod' } as const;
  return {
    ...egress,
    sources,
    classes: new Map([...egress.classes, [HELD, { id: HELD, ipv4: all(4), ipv6: all(6) }]]),
    outcomes: new Map([...egress.outcomes, [HELD, { id: HELD, policy: null, audited: [], action }]]),
  };
}

function all(family: Family) {
  return [{ range: { first: 0n, last: (1n << BigInt(BITS[family])) - 1n }, outcome: HELD }];
}
