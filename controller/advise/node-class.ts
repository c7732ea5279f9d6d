import { isSinglePeer, type Owner, widened } from './peer-owner.ts';
import { addEvidence, type Evidence, type SeenService, seenServiceKey, sumOf } from './seen-service.ts';

interface OwnerEvidence {
  readonly owner: Owner;
  readonly evidence: Evidence;
}

/** Why flows become part of the review list, and of no rule; in its order. */
export const REASONS = {
  scanner: 'one peer on many ports: a scanner?',
  denied: 'denied when it was last seen',
  'denied-now': 'denied by a rule that is in force',
  few: 'seen once or twice',
  'client-port': 'ports that clients use: perhaps the other end of a connection from here',
  'many-ports': 'so many ports of one peer that they are one kind',
  'no-port': 'no port is known',
  'pod-gone': 'addresses of pods that are gone',
  'too-many': 'beyond the number of services that fit into few rules',
};
export type UnadvisedReason = keyof typeof REASONS;

/** A service, or flows that are in no rule, whatever else is seen. */
export interface SeenTraffic {
  readonly service: SeenService;
  /** Null: a rule may allow it. */
  readonly reason: UnadvisedReason | null;
  /** The rule that denies it; only with `denied-now`. */
  readonly rule?: string | undefined;
}

/** An owner of a service, with the reason why no rule may name it. */
export interface SeenOwner extends SeenTraffic, OwnerEvidence {}

/** The most addresses of a service that are told apart, and then the most networks. */
const MOST_BLOCKS = 1_024;
/** Beyond them, flows that are in no rule are counted. */
const MOST_ASIDES = 5_000;

/**
 * The users of a service, by owner. Nodes, pods and Services are bounded by the cluster's objects;
 * other addresses become their networks, and then one owner for the family, where they are many.
 */
export class SeenUse {
  readonly seen: SeenTraffic;
  /** Nodes where it was seen. */
  nodeCount = 0;
  readonly owners = new Map<string, OwnerEvidence>();
  #blocks = 0;
  #level: 0 | 1 | 2 = 0;

  constructor(seen: SeenTraffic) {
    this.seen = seen;
  }

  add({ owner: given, evidence }: OwnerEvidence): void {
    const owner = widened(given, this.#level);
    const known = this.owners.get(owner.key);
    if (known !== undefined) addEvidence(known.evidence, evidence);
    else {
      this.owners.set(owner.key, { owner, evidence: sumOf([evidence]) });
      if ('cidr' in owner && this.seen.reason === null && ++this.#blocks > MOST_BLOCKS) this.#widen();
    }
  }

  /** Evidence of one address may come from several nodes: they are counted more than once here. */
  #widen(): void {
    this.#level = this.#level === 0 ? 1 : 2;
    const all = [...this.owners.values()];
    this.owners.clear();
    this.#blocks = 0;
    for (const one of all) this.add(one);
  }
}

/** Kinds that are allowed without a rule. */
export interface Tally {
  readonly kinds: number;
  readonly connections: number;
}

/**
 * Nodes that serve the same and have the same labels of roles, and what was seen of all of them.
 */
export class NodeClass {
  /** Services (tcp 22) that were seen enough. */
  readonly served: Set<string>;
  /** Their labels of roles, as one text. */
  readonly roleLabels: string;
  readonly nodes: string[] = [];
  readonly uses = new Map<string, SeenUse>();
  /** By the exemption, or `failsafe`. */
  readonly guaranteed = new Map<string, Tally>();
  /** Outside owners that came on so many ports that the agent folded them. */
  readonly folded = new Set<string>();
  leftOut = 0;
  #asides = 0;

  constructor(served: Iterable<string> = [], roleLabels = '') {
    this.served = new Set(served);
    this.roleLabels = roleLabels;
  }

  /** Keeps no reference to the evidence. Returns the use that has it now. */
  add(seen: SeenTraffic, one: OwnerEvidence): SeenUse {
    const key = seenKey(seen);
    const isOfMany = seen.reason === 'many-ports' && seen.service.direction === 'ingress';
    if (isOfMany && 'cidr' in one.owner && isSinglePeer(one.owner)) this.folded.add(one.owner.key);
    const use = this.uses.get(key) ?? new SeenUse(seen);
    const isNewAside = seen.reason !== null && !use.owners.has(one.owner.key);
    if (isNewAside && ++this.#asides > MOST_ASIDES) this.leftOut++;
    else {
      use.add(one);
      this.uses.set(key, use);
    }
    return use;
  }

  guarantee(by: string, { kinds, connections }: Tally): void {
    const sum = this.guaranteed.get(by) ?? { kinds: 0, connections: 0 };
    this.guaranteed.set(by, { kinds: sum.kinds + kinds, connections: sum.connections + connections });
  }

  /** Adds other nodes. Costs what was seen of them. */
  merge(other: NodeClass): void {
    this.nodes.push(...other.nodes);
    for (const service of other.served) this.served.add(service);
    for (const key of other.folded) this.folded.add(key);
    for (const { seen, owners, nodeCount } of other.uses.values()) {
      let use: SeenUse | undefined;
      for (const one of owners.values()) use = this.add(seen, one);
      if (use !== undefined) use.nodeCount += nodeCount;
    }
    for (const [by, tally] of other.guaranteed) this.guarantee(by, tally);
    this.leftOut += other.leftOut;
  }

  /** When an owner was last denied a service; null: never. */
  deniedAt(service: SeenService, owner: string): number | null {
    const denied = this.uses.get(seenKey({ service, reason: 'denied' }));
    return denied?.owners.get(owner)?.evidence.lastSeen ?? null;
  }
}

function seenKey({ service, reason, rule }: SeenTraffic): string {
  return `${seenServiceKey(service)} ${reason} ${rule ?? ''}`;
}

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

interface Suspicions {
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
