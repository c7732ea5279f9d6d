import type { Direction, PolicyTraffic } from '../../apis/objects.ts';
import { utcText } from '../../lib/process/clock.ts';
import { present } from '../../lib/sharing/present.ts';
import { addEvidence, copyOf, type Evidence } from './evidence.ts';
import type { Aside } from './node-class.ts';
import { REASONS, type Reason } from './odd-source.ts';
import { type Owner, ownerText } from './peer-owner.ts';
import type { OddOwner } from './role-drafts.ts';
import { compareServices, type SeenService, serviceText } from './seen-service.ts';

/** Flows of one peer that are in no rule, and why: somebody has to look at them. */
export interface ReviewItem {
  readonly reason: Reason;
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

interface Gathered {
  readonly reason: Reason;
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  readonly owner: Owner;
  readonly services: (SeenService | null)[];
  readonly evidence: Evidence;
  readonly rule?: string;
}

/**
 * The kinds that are in no rule of a role, by peer and reason. The flows of a scanner are one item,
 * whatever else is odd about them.
 */
export function reviewItems(
  role: string,
  {
    odd,
    asides,
    scanners,
  }: {
    readonly odd: readonly OddOwner[];
    readonly asides: Iterable<Aside>;
    readonly scanners: ReadonlySet<string>;
  },
): ReviewItem[] {
  const gathered = new Map<string, Gathered>();
  const gather = (one: Omit<Aside, 'service'> & { readonly service: SeenService | null }): void => {
    const isScan = scanners.has(one.owner.key) && one.direction === 'ingress';
    const reason = isScan ? 'scanner' : one.reason;
    const { direction, traffic, owner, evidence, service, rule } = one;
    const of = isScan || rule === undefined ? {} : { rule };
    const key = `${reason} ${direction} ${traffic} ${owner.key} ${of.rule ?? ''}`;
    const known = gathered.get(key);
    if (known === undefined) {
      gathered.set(key, {
        reason,
        direction,
        traffic,
        owner,
        services: [service],
        evidence: copyOf(evidence),
        ...of,
      });
      return;
    }
    known.services.push(service);
    const { nodeCount } = known.evidence;
    // Nodes of several services may be the same ones.
    addEvidence(known.evidence, evidence, true);
    known.evidence.nodeCount = Math.max(nodeCount, evidence.nodeCount);
  };
  for (const one of odd) gather({ ...one, direction: one.service.direction, traffic: one.service.traffic });
  for (const one of asides) gather(one);
  return [...gathered.values()].map((one) => toItem(role, one));
}

function toItem(role: string, { services, owner, evidence, ...of }: Gathered): ReviewItem {
  const known = services.filter((service) => service !== null).sort(compareServices);
  const texts = [...new Set(known.map(serviceText))];
  const many = services.includes(null) ? ['many or unknown ports'] : [];
  return {
    reason: of.reason,
    role,
    direction: of.direction,
    traffic: of.traffic,
    peer: ownerText(owner),
    services: [...texts.slice(0, MOST_SERVICES), ...many],
    moreServices: Math.max(0, texts.length - MOST_SERVICES),
    connections: evidence.connections,
    live: evidence.live,
    nodes: evidence.nodes,
    nodeCount: evidence.nodeCount,
    lastSeen: utcText(evidence.lastSeen),
    ...present({ rule: of.rule }),
  };
}

/** By reason, most connections first. */
export function compareItems(a: ReviewItem, b: ReviewItem): number {
  return (
    REASONS.indexOf(a.reason) - REASONS.indexOf(b.reason) ||
    b.connections - a.connections ||
    (placeText(a) < placeText(b) ? -1 : 1)
  );
}

function placeText({ role, direction, traffic, peer }: ReviewItem): string {
  return `${role} ${direction} ${traffic} ${peer}`;
}
