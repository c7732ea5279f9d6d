import type { Address, Family } from '../address.ts';
import { addressKey } from '../address.ts';
import type { ClusterNode } from '../cluster.ts';
import { selects } from '../selector.ts';
import type { Gateway } from './egress-objects.ts';

/** Which nodes a packet may leave by. */
export interface Owners {
  /** Empty: none can be. */
  readonly nodes: readonly ClusterNode[];
  /** Why none can be; beside nodes: why there may be none, which the manifests leave open. */
  readonly reasons: readonly string[];
}

/** The nodes that may own a floating address. */
export function ownersOf(gateway: Gateway, address: Address, nodes: readonly ClusterNode[]): Owners {
  const ready = readyCandidates(gateway, nodes);
  const has = (slot: Gateway['slots'][number]) =>
    slot.addresses.some((one) => addressKey(one) === addressKey(address));
  const owner = gateway.slots.find(has)?.node;
  if (ready.length === 0) return { nodes: [], reasons: ['not-ready'] };
  // A slot without an owner: the next step of the controller gives it one.
  if (owner === '') return { nodes: ready, reasons: ['not-ready'] };
  if (owner === undefined) {
    // It goes to a slot that is there, or to a new one.
    const isReady = gateway.slots.every((slot) => ready.some(({ name }) => name === slot.node));
    return { nodes: ready, reasons: isReady ? [] : ['not-ready'] };
  }
  const node = ready.find(({ name }) => name === owner);
  if (node !== undefined) return { nodes: [node], reasons: [] };
  const isCandidate = candidates(gateway, nodes).some(({ name }) => name === owner);
  if (isCandidate) return { nodes: [], reasons: ['not-ready'] };
  // An owner that is no candidate any more: the next step of the controller gives it another.
  return { nodes: ready, reasons: ['not-ready'] };
}

/** The nodes of a gateway of source Node that may translate packets of the family. */
export function translatorsOf(gateway: Gateway, family: Family, nodes: readonly ClusterNode[]): Owners {
  const hasFamily = (node: ClusterNode) => node.addresses.some((address) => address.family === family);
  const ready = readyCandidates(gateway, nodes);
  const able = ready.filter(hasFamily);
  if (able.length > 0) return { nodes: able, reasons: [] };
  const some = candidates(gateway, nodes).some(hasFamily);
  const reasons = ready.length === 0 ? ['not-ready', 'no-family'] : ['no-family'];
  return { nodes: [], reasons: some ? ['not-ready', 'no-family'] : reasons };
}

/** A candidate of which no status speaks is ready. */
function readyCandidates(gateway: Gateway, nodes: readonly ClusterNode[]): ClusterNode[] {
  return candidates(gateway, nodes).filter(({ name }) => gateway.ready.get(name) !== false);
}

function candidates(gateway: Gateway, nodes: readonly ClusterNode[]): ClusterNode[] {
  return nodes.filter(({ labels }) => selects(gateway.nodeSelector, labels));
}
