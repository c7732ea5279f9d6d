import { hasPorts, hasTypes } from './seen-service.ts';
import type { OwnerEvidence, ServiceEvidence } from './service-evidence.ts';

/** Why flows become part of the review list, and of no rule. */
export const REASONS = [
  'scanner',
  'denied',
  'denied-now',
  'few',
  'client-port',
  'many-ports',
  'no-port',
  'pod-gone',
  'unnamed-protocol',
  'too-many',
] as const;
export type Reason = (typeof REASONS)[number];

/** Fewer connections are seen once, or twice by chance. */
export const FEW = 3;
/** Ports of one peer from which on it may be a scanner. */
const MANY_PORTS = 16;
/** From here on a port may be a client's (Linux: 32768 to 60999), and needs more evidence. */
export const CLIENT_PORTS = 32_768;
const FEW_OF_CLIENT_PORT = 10;
/** A service with so many peers that mostly come once is for everybody. */
const MANY_PEERS = 8;

/**
 * Keys of the owners that scan: one peer on many ports, most of which nobody else uses, or nobody
 * more than a few times. Connections that are open speak against it. Costs a pass over the
 * evidence.
 *
 * @param folded owners whose ports are so many that the agent folded them
 */
export function scanners(services: Iterable<ServiceEvidence>, folded: ReadonlySet<string>): Set<string> {
  const inward = [...services].filter(({ service }) => {
    return service.direction === 'ingress' && hasPorts(service) && (service.port ?? 0) < CLIENT_PORTS;
  });
  const counts = new Map<string, number>();
  for (const { owners } of inward)
    for (const one of owners)
      if (mayScan(one)) counts.set(one.owner.key, (counts.get(one.owner.key) ?? 0) + 1);
  const isCandidate = ({ owner }: OwnerEvidence) => (counts.get(owner.key) ?? 0) >= MANY_PORTS;
  const odd = new Map<string, number>();
  for (const { owners, size } of inward) {
    const all = [...owners];
    const isThin = all.every(({ evidence }) => evidence.connections < FEW * evidence.nodeCount);
    const isTheirs = all.every((one) => isCandidate(one) && one.owner.kind !== 'node');
    for (const one of all.filter(isCandidate)) {
      if (one.evidence.live > 0 || !(size === 1 || isThin || isTheirs)) continue;
      odd.set(one.owner.key, (odd.get(one.owner.key) ?? 0) + 1);
    }
  }
  const found = [...odd].filter(([key, count]) => count * 2 >= (counts.get(key) ?? 0)).map(([key]) => key);
  return new Set([...found, ...folded]);
}

/** Whether one peer is behind it. */
function mayScan({ owner }: OwnerEvidence): boolean {
  return (
    owner.kind === 'node' || owner.kind === 'pods' || owner.kind === 'address' || owner.kind === 'gone-pod'
  );
}

export interface Suspicions {
  readonly scanners: ReadonlySet<string>;
  /** When the owner was last denied this service; null: never. */
  readonly deniedAt: (owner: string) => number | null;
}

/**
 * Divides the owners of a service into those that a rule may name, and the others with the reason.
 */
export function sortOwners(
  of: ServiceEvidence,
  { scanners: scanning, deniedAt }: Suspicions,
): { readonly good: OwnerEvidence[]; readonly odd: (OwnerEvidence & { readonly reason: Reason })[] } {
  const all = [...of.owners];
  const others = all.filter(({ owner }) => !scanning.has(owner.key));
  const isPopular = isForEverybody(others);
  const nodes = others.filter(({ owner }) => owner.kind === 'node');
  const ofNodes = nodes.reduce((sum, { evidence }) => sum + evidence.connections + FEW * evidence.live, 0);
  const total = others.reduce((sum, { evidence }) => sum + evidence.connections, 0);
  const { service } = of;
  const isNamed = hasPorts(service) || hasTypes(service);
  const isOfClient = hasPorts(service) && (service.port ?? 0) >= CLIENT_PORTS && total < FEW_OF_CLIENT_PORT;
  const reasonOf = ({ owner, evidence }: OwnerEvidence): Reason | null => {
    if (scanning.has(owner.key)) return 'scanner';
    if (owner.kind === 'gone-pod') return 'pod-gone';
    if ((deniedAt(owner.key) ?? Number.NEGATIVE_INFINITY) > evidence.lastSeen) return 'denied';
    if (!isNamed && owner.kind !== 'node') return 'unnamed-protocol';
    if (isOfClient) return 'client-port';
    const weight = owner.kind === 'node' ? ofNodes : evidence.connections + FEW * evidence.live;
    return weight < FEW && !isPopular ? 'few' : null;
  };
  const sorted = all.map((one) => ({ ...one, reason: reasonOf(one) }));
  return {
    good: sorted.filter(({ reason }) => reason === null),
    odd: sorted.flatMap(({ reason, ...one }) => (reason === null ? [] : { ...one, reason })),
  };
}

/** Whether most peers of a service with many come so seldom that it is no sign of anything. */
function isForEverybody(owners: readonly OwnerEvidence[]): boolean {
  const outside = owners.filter(
    ({ owner: { kind } }) => kind === 'address' || kind === 'network' || kind === 'any',
  );
  if (outside.some(({ owner }) => owner.kind !== 'address')) return true;
  if (outside.length < MANY_PEERS) return false;
  const counts = outside.map(({ evidence }) => evidence.connections).sort((a, b) => a - b);
  return (counts[counts.length >> 1] ?? 0) < FEW;
}

/** Whether a service is seen enough to say what a node is for. */
export function isSolid(of: ServiceEvidence, scanning: ReadonlySet<string>): boolean {
  return sortOwners(of, { scanners: scanning, deniedAt: () => null }).good.length > 0;
}
