import type { Direction, PolicyTraffic } from '../../apis/objects.ts';
import { utcText } from '../../lib/process/clock.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { present } from '../../lib/sharing/present.ts';
import { REASONS, type SeenOwner, type UnadvisedReason } from './node-class.ts';
import { compareServices, seenServiceText, sumOf } from './seen-service.ts';

/** Flows of one peer that are in no rule, and why: somebody has to look at them. */
export interface ReviewItem {
  readonly reason: UnadvisedReason;
  readonly role: string;
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  /** `Node NAME`, `pods NAMESPACE/LABEL`, `Service NAMESPACE/NAME`, an address or a CIDR. */
  readonly peer: string;
  /** The first few, and how many more. */
  readonly services: readonly string[];
  readonly moreServices: number;
  readonly connections: number;
  readonly live: number;
  /** The first few, and the number of nodes that saw most of it. */
  readonly nodes: readonly string[];
  readonly nodeCount: number;
  readonly lastSeen: string;
  /** The rule that denies them now; only with reason `denied-now`. */
  readonly rule?: string;
}

const MOST_SERVICES = 5;

/**
 * The flows that are in no rule of a role, by peer and reason. The flows of a scanner are one item,
 * whatever else is odd about them.
 */
export function reviewItems(
  role: string,
  odd: readonly SeenOwner[],
  scanners: ReadonlySet<string>,
): ReviewItem[] {
  const all = odd.map((one): SeenOwner => {
    const isScan = scanners.has(one.owner.key) && one.service.direction === 'ingress';
    return isScan ? { ...one, reason: 'scanner', rule: undefined } : one;
  });
  const groups = Map.groupBy(all, ({ reason, rule, owner, service: { direction, traffic } }) =>
    JSON.stringify([reason, direction, traffic, owner.key, rule]),
  );
  return [...groups.values()].flatMap((same) => {
    const [{ reason, rule, owner, service } = { reason: null }] = same;
    if (reason === null) return [];
    const { connections, live, nodes, lastSeen } = sumOf(same.map(({ evidence }) => evidence));
    const texts = new Set(
      same
        .map((one) => one.service)
        .sort(compareServices)
        .map(seenServiceText),
    );
    return {
      reason,
      role,
      direction: service.direction,
      traffic: service.traffic,
      peer: owner.text,
      services: [...texts].slice(0, MOST_SERVICES),
      moreServices: Math.max(0, texts.size - MOST_SERVICES),
      connections,
      live,
      nodes,
      // Nodes of several services may be the same ones.
      nodeCount: Math.max(...same.map(({ evidence }) => evidence.nodeCount)),
      lastSeen: utcText(lastSeen),
      ...present({ rule }),
    };
  });
}

/** By reason, most connections first. */
export function compareItems(a: ReviewItem, b: ReviewItem): number {
  const placeOf = ({ role, direction, traffic, peer, rule }: ReviewItem): string =>
    [role, direction, traffic, peer, rule].join(' ');
  const reasons = Object.keys(REASONS);
  return (
    reasons.indexOf(a.reason) - reasons.indexOf(b.reason) ||
    b.connections - a.connections ||
    compareText(placeOf(a), placeOf(b))
  );
}
