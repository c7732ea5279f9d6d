import type { Address } from './address.ts';
import { addressKey, inRange, parseCidr } from './address.ts';
import type { Cluster } from './cluster.ts';
import type { PeerManifest } from './manifest.ts';
import { assertOnlyFields } from './manifest.ts';
import { selects } from './selector.ts';

/** Answers whether an address is one of those a peer stands for. */
export type AddressTest = (address: Address) => boolean;

/** The test for a rule's peer list; undefined when the list is absent or empty, which means any address. */
export function toPeersTest(peers: PeerManifest[] | undefined, cluster: Cluster): AddressTest | undefined {
  if (peers === undefined || peers === null || peers.length === 0) return undefined;
  const tests = peers.map((peer) => toPeerTest(peer, cluster));
  return (address) => tests.some((test) => test(address));
}

/** The test for being an address of any Node: what the failsafe calls `nodes`. */
export function toNodesTest(cluster: Cluster): AddressTest {
  return toPeerTest({ nodeSelector: {} }, cluster);
}

function toPeerTest(peer: PeerManifest, cluster: Cluster): AddressTest {
  const fields = ['ipBlock', 'nodeSelector', 'podSelector', 'namespaceSelector', 'serviceAccount'];
  assertOnlyFields(peer, fields, 'peer');
  const { ipBlock, nodeSelector, podSelector, namespaceSelector, serviceAccount } = peer;
  if (ipBlock !== undefined) {
    const block = parseCidr(ipBlock.cidr);
    const exceptions = (ipBlock.except ?? []).map(parseCidr);
    return (address) => inRange(block, address) && !exceptions.some((range) => inRange(range, address));
  }
  if (nodeSelector !== undefined) {
    return toMembersTest(cluster.nodes.filter((node) => selects(nodeSelector, node.labels)));
  }
  if (serviceAccount !== undefined) {
    const { name, namespace } = serviceAccount;
    const pods = cluster.pods.filter((pod) => pod.serviceAccount === name && pod.namespace === namespace);
    return toMembersTest(pods);
  }
  if (podSelector === undefined && namespaceSelector === undefined) throw new Error('an empty peer');
  const pods = cluster.pods.filter(
    (pod) => selects(podSelector ?? {}, pod.labels) && selects(namespaceSelector ?? {}, pod.namespaceLabels),
  );
  return toMembersTest(pods);
}

function toMembersTest(members: { addresses: Address[] }[]): AddressTest {
  const keys = new Set(members.flatMap((member) => member.addresses.map(addressKey)));
  return (address) => keys.has(addressKey(address));
}
