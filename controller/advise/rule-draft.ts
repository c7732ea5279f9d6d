import type { NamespacedName, NetworkPolicyPeer } from '../../apis/objects.ts';
import type { Address, Cidr, Family } from '../../lib/net/address.ts';
import type { Evidence } from './evidence.ts';
import type { SeenService } from './seen-service.ts';

/** One peer of a draft. */
export type DraftPeer =
  | { readonly kind: 'selector'; readonly peer: NetworkPolicyPeer }
  | { readonly kind: 'service'; readonly service: NamespacedName }
  | { readonly kind: 'block'; readonly cidr: Cidr }
  | { readonly kind: 'any'; readonly family: Family };

/** A service that a draft allows, and what was seen of it. */
export interface DraftService {
  readonly service: SeenService;
  /** The evidence for the peers that the draft names. */
  readonly evidence: readonly Evidence[];
  readonly nodeCount: number;
}

/** The content of a rule: every peer may use every service. */
export interface RuleDraft {
  /** By key. */
  readonly peers: ReadonlyMap<string, DraftPeer>;
  readonly services: readonly DraftService[];
  /** Addresses of the review list, which no CIDR of the rule must cover. */
  readonly avoid: readonly Address[];
  /** Pairs of peer and service that are allowed and were not seen. */
  readonly unseen: number;
}

/**
 * Which drafts can be one rule: with ports, for Services (which bring their ports), or for all
 * traffic, because no rule names the protocol.
 */
export type Form = 'ports' | 'services' | 'everything';

/** Everything weighs as much as so many peers. */
const ANYBODY = 100;

/**
 * Joins drafts until there are at most `most`, those first that allow the fewest pairs of peer and
 * service which were not seen. O(n²) comparisons of drafts.
 */
export function joinDrafts(drafts: readonly RuleDraft[], most: number): RuleDraft[] {
  const left: (RuleDraft | null)[] = [...drafts];
  const nearest = left.map((_, i) => nearestOf(left, i));
  for (let count = left.length; count > Math.max(1, most); count--) {
    const at = indexOfLeast(nearest);
    const to = nearest[at]?.other ?? -1;
    const [one, other] = [left[at], left[to]];
    if (!one || !other) break;
    left[at] = joined(one, other);
    left[to] = null;
    nearest[to] = null;
    for (const [i, near] of nearest.entries()) {
      const isStale = near !== null && (near.other === to || near.other === at || i === at);
      if (isStale) nearest[i] = nearestOf(left, i);
      else if (near !== null && left[i] != null) {
        const cost = costOf(left[i], left[at]);
        if (cost < near.cost) nearest[i] = { other: at, cost };
      }
    }
  }
  return left.filter((draft) => draft !== null);
}

interface Near {
  readonly other: number;
  readonly cost: number;
}

function nearestOf(drafts: readonly (RuleDraft | null)[], at: number): Near | null {
  const own = drafts[at];
  if (!own) return null;
  let best: Near | null = null;
  for (const [other, draft] of drafts.entries()) {
    if (other === at || draft === null) continue;
    const cost = costOf(own, draft);
    if (best === null || cost < best.cost) best = { other, cost };
  }
  return best;
}

function indexOfLeast(nearest: readonly (Near | null)[]): number {
  let best = -1;
  for (const [i, near] of nearest.entries())
    if (near !== null && (best === -1 || near.cost < (nearest[best]?.cost ?? 0))) best = i;
  return best;
}

function costOf(a: RuleDraft, b: RuleDraft): number {
  return addedBy(a, b) + addedBy(b, a);
}

/** Pairs of the peers of `of` alone with the services of `to` alone. */
function addedBy(of: RuleDraft, to: RuleDraft): number {
  let peers = 0;
  for (const [key, { kind }] of of.peers) if (!to.peers.has(key)) peers += kind === 'any' ? ANYBODY : 1;
  return peers * to.services.length;
}

function joined(a: RuleDraft, b: RuleDraft): RuleDraft {
  return {
    peers: new Map([...a.peers, ...b.peers]),
    services: [...a.services, ...b.services],
    avoid: [...a.avoid, ...b.avoid],
    unseen: a.unseen + b.unseen + costOf(a, b),
  };
}
