import type { NodeClass, OwnerEvidence, SeenOwner, SeenUse, UnadvisedReason } from './node-class.ts';
import { isSinglePeer } from './peer-owner.ts';
import type { SeenService } from './seen-service.ts';

/** Fewer connections are seen once, or twice by chance. */
const FEW = 3;
/** Ports of one peer from which on it may be a scanner. */
const MANY_PORTS = 16;
/** From here on a port may be a client's (Linux: 32768 to 60999), and needs more evidence. */
export const CLIENT_PORTS = 32_768;
const FEW_OF_CLIENT_PORT = 10;
/** A service with so many peers that mostly come once is for everybody. */
const MANY_PEERS = 8;

/**
 * Keys of the owners that scan: one peer on many ports, most of which nobody else uses, or nobody
 * more than a few times; or on so many that the agent folded them. Connections that are open speak
 * against it. Costs a pass over the evidence.
 */
export function scanners({ uses, folded }: Pick<NodeClass, 'uses' | 'folded'>): Set<string> {
  const inward = [...uses.values()].filter(({ seen }) => seen.service.direction === 'ingress');
  const ownersOf = (some: (use: SeenUse) => boolean) =>
    inward.filter(some).map(({ owners }) => [...owners.values()].filter(({ owner }) => isSinglePeer(owner)));
  const isServed = ({ seen: { service, reason } }: SeenUse): boolean =>
    reason === null && service.port !== null && service.port < CLIENT_PORTS;
  const ports = tally(ownersOf(isServed).flat());
  const isCandidate = ({ owner }: OwnerEvidence): boolean => (ports.get(owner.key) ?? 0) >= MANY_PORTS;
  const odd = inward.filter(isServed).flatMap(({ owners }) => {
    const all = [...owners.values()];
    const isThin = all.every(({ evidence }) => evidence.connections < FEW * evidence.nodeCount);
    const isTheirs = all.every((one) => isCandidate(one) && one.owner.kind !== 'node');
    if (all.length > 1 && !isThin && !isTheirs) return [];
    return all.filter((one) => isCandidate(one) && one.evidence.live === 0);
  });
  const found = [...tally(odd)].filter(([key, count]) => count * 2 >= (ports.get(key) ?? 0));
  return new Set([...found.map(([key]) => key), ...folded]);
}

function tally(all: readonly OwnerEvidence[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { owner } of all) counts.set(owner.key, (counts.get(owner.key) ?? 0) + 1);
  return counts;
}

export interface Suspicions {
  readonly scanners: ReadonlySet<string>;
  /** When an owner was last denied a service; null: never. */
  readonly deniedAt: (service: SeenService, owner: string) => number | null;
}

/** The owners of a service, with the reason why they are in no rule. */
export function sortOwners({ seen, owners }: SeenUse, suspicions: Suspicions): SeenOwner[] {
  const { service, reason } = seen;
  const { scanners: scanning, deniedAt } = suspicions;
  const all = [...owners.values()];
  const others = all.filter(({ owner }) => !scanning.has(owner.key));
  const isPopular = isForEverybody(others);
  const weightOf = (some: readonly OwnerEvidence[]): number =>
    some.reduce((sum, { evidence }) => sum + evidence.connections + FEW * evidence.live, 0);
  const ofNodes = weightOf(others.filter(({ owner }) => owner.kind === 'node'));
  const total = others.reduce((sum, { evidence }) => sum + evidence.connections, 0);
  const isOfClient = (service.port ?? 0) >= CLIENT_PORTS && total < FEW_OF_CLIENT_PORT;
  const reasonOf = (one: OwnerEvidence): UnadvisedReason | null => {
    const { key, kind } = one.owner;
    if (reason !== null) return reason;
    if (scanning.has(key)) return 'scanner';
    if (kind === 'gone-pod') return 'pod-gone';
    if ((deniedAt(service, key) ?? Number.NEGATIVE_INFINITY) > one.evidence.lastSeen) return 'denied';
    if (service.port === null && service.type === null && kind !== 'node') return 'unnamed-protocol';
    if (isOfClient) return 'client-port';
    return (kind === 'node' ? ofNodes : weightOf([one])) < FEW && !isPopular ? 'few' : null;
  };
  return all.map((one) => ({ ...seen, ...one, reason: reasonOf(one) }));
}

/** Whether most peers of a service with many come so seldom that it is no sign of anything. */
function isForEverybody(owners: readonly OwnerEvidence[]): boolean {
  const outside = owners.filter(({ owner }) => owner.kind === 'block');
  if (outside.some(({ owner }) => !isSinglePeer(owner))) return true;
  const counts = outside.map(({ evidence }) => evidence.connections).sort((a, b) => a - b);
  return counts.length >= MANY_PEERS && (counts[counts.length >> 1] ?? 0) < FEW;
}
