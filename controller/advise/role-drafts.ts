import type { Node } from '../../apis/objects.ts';
import { type Address, BITS } from '../../lib/net/address.ts';
import { nodePeers } from './node-peers.ts';
import { type Reason, type Suspicions, sortOwners } from './odd-source.ts';
import type { Owner } from './peer-owner.ts';
import { podPeers } from './pod-peers.ts';
import type { PodShape } from './pod-shape.ts';
import type { Role } from './roles.ts';
import type { DraftPeer, RuleDraft } from './rule-draft.ts';
import type { SeenService } from './seen-service.ts';
import type { OwnerEvidence, ServiceEvidence } from './service-evidence.ts';

/** Facts of the whole cluster that peers are made of. */
export interface Surroundings {
  readonly roles: readonly Role[];
  readonly podsByNamespace: ReadonlyMap<string, readonly PodShape[]>;
  readonly scanners: ReadonlySet<string>;
  /** Addresses of the scanners. */
  readonly scanning: readonly Address[];
}

/** An owner whose flows are in no rule. */
export interface OddOwner extends OwnerEvidence {
  readonly service: SeenService;
  readonly reason: Reason;
}

/** The drafts for what was seen of one service, and what is for the review list. */
export function serviceDrafts(
  of: ServiceEvidence,
  suspicions: Suspicions,
  surroundings: Surroundings,
): { readonly drafts: RuleDraft[]; readonly odd: OddOwner[] } {
  const { service, nodeCount } = of;
  const { good, odd } = sortOwners(of, suspicions);
  const avoid = [...surroundings.scanning, ...odd.filter(isAvoided).flatMap(({ owner }) => addressOf(owner))];
  const drafts: RuleDraft[] = [];
  const isOfService = ({ owner }: OwnerEvidence): boolean => owner.kind === 'service';
  for (const some of [good.filter(isOfService), good.filter((one) => !isOfService(one))]) {
    const peers = draftPeers(
      some.map(({ owner }) => owner),
      surroundings,
    );
    const evidence = some.map((one) => one.evidence);
    if (peers.size > 0)
      drafts.push({ peers, services: [{ service, evidence, nodeCount }], avoid, unseen: 0 });
  }
  return { drafts, odd: odd.map((one) => ({ ...one, service })) };
}

/** An address of a pod that is gone will be another pod's. */
function isAvoided({ reason }: { readonly reason: Reason }): boolean {
  return reason !== 'pod-gone';
}

function addressOf(owner: Owner): Address[] {
  return owner.kind === 'address' ? [owner.address] : [];
}

function draftPeers(
  owners: readonly Owner[],
  { roles, podsByNamespace }: Surroundings,
): Map<string, DraftPeer> {
  const nodes: Node[] = [];
  const shapes: PodShape[] = [];
  const peers = new Map<string, DraftPeer>();
  for (const owner of owners) {
    switch (owner.kind) {
      case 'node':
        nodes.push(owner.node);
        break;
      case 'pods':
        shapes.push(owner.shape);
        break;
      case 'all-pods':
        addSelector(peers, { namespaceSelector: {} });
        break;
      case 'service':
        peers.set(owner.key, { kind: 'service', service: owner.service });
        break;
      case 'address':
        peers.set(owner.key, {
          kind: 'block',
          cidr: { ...owner.address, length: BITS[owner.address.family] },
        });
        break;
      case 'network':
        peers.set(owner.key, { kind: 'block', cidr: owner.cidr });
        break;
      case 'any':
        peers.set(owner.key, { kind: 'any', family: owner.family });
        break;
      case 'gone-pod':
        throw new TypeError('an address that nobody has is no peer of a rule');
    }
  }
  const ofNodes = nodePeers(nodes, roles);
  // All pods have all workloads.
  const ofPods = peers.has(selectorKey({ namespaceSelector: {} }))
    ? { peers: [], blocks: [] }
    : podPeers(shapes, podsByNamespace);
  for (const peer of [...ofNodes.peers, ...ofPods.peers]) addSelector(peers, peer);
  for (const cidr of [...ofNodes.blocks, ...ofPods.blocks])
    peers.set(`${cidr.family} ${cidr.value} ${cidr.length}`, { kind: 'block', cidr });
  return peers;
}

function addSelector(peers: Map<string, DraftPeer>, peer: (DraftPeer & { kind: 'selector' })['peer']): void {
  peers.set(selectorKey(peer), { kind: 'selector', peer });
}

function selectorKey(peer: object): string {
  return JSON.stringify(peer);
}

/** Services of which the same peers were seen are one draft. */
export function bySamePeers(drafts: readonly RuleDraft[]): RuleDraft[] {
  const groups = Map.groupBy(drafts, ({ peers }) => [...peers.keys()].sort().join('\n'));
  return [...groups.values()].map((same) => ({
    peers: same[0]?.peers ?? new Map(),
    services: same.flatMap(({ services }) => services),
    avoid: same.flatMap(({ avoid }) => avoid),
    unseen: 0,
  }));
}
