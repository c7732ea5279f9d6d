import type { Cluster } from './cluster.ts';
import type { Names, OracleConfig } from './config.ts';
import type { Packet } from './flow.ts';
import { groupNamesPods, toGroupTest } from './group.ts';
import { groupNumber } from './interface-group.ts';
import type { PeerManifest } from './manifest.ts';
import { assertOnlyFields } from './manifest.ts';
import type { AddressTest } from './member.ts';
import { isSingle, toAccountTest, toBlockTest, toListTest, toNodesTest, toPodsTest } from './member.ts';
import { resolveName } from './name.ts';

/** Answers whether a packet comes from (ingress) or goes to (egress) one of a rule's peers. */
export type PeerTest = (packet: Packet) => boolean;

/** What peers are resolved against. */
export interface PeerContext {
  objects: readonly object[];
  cluster: Cluster;
  config: OracleConfig;
  names: Names;
  /** API group of the policy, where a group is looked up first. */
  apiGroup: string;
}

const kinds = [
  ['ipBlock'],
  ['nodeSelector'],
  ['podSelector', 'namespaceSelector'],
  ['serviceAccount'],
  ['group'],
  ['fqdn'],
  ['interfaceGroup'],
];

/**
 * The test for a rule's peer list; undefined when the list is absent or empty, which means any
 * address.
 */
export function toPeersTest(peers: PeerManifest[] | undefined, context: PeerContext): PeerTest | undefined {
  if (peers === undefined || peers === null || peers.length === 0) return undefined;
  const tests = peers.map((peer) => toPeerTest(peer, context));
  return (packet) => tests.some((test) => test(packet));
}

function toPeerTest(peer: PeerManifest, context: PeerContext): PeerTest {
  assertOnlyFields(peer, kinds.flat(), 'peer');
  const given = kinds.filter((fields) => fields.some((field) => Object.hasOwn(peer, field)));
  if (given.length !== 1) throw new Error(given.length === 0 ? 'an empty peer' : 'a peer of two kinds');
  if (peer.interfaceGroup !== undefined) return toInterfaceTest(peer.interfaceGroup, context.config);
  const isPeer = toAddressTest(peer, context);
  return ({ remote }) => remote !== undefined && isPeer(remote);
}

/** Whether a peer is a selector of pods, a service account, a single address, or such a group. */
export function namesPod(peer: PeerManifest, objects: readonly object[], apiGroup: string): boolean {
  if (peer.ipBlock !== undefined) return isSingle(peer.ipBlock);
  if (peer.group !== undefined) return groupNamesPods(objects, peer.group, apiGroup);
  return [peer.podSelector, peer.namespaceSelector, peer.serviceAccount].some((one) => one !== undefined);
}

/**
 * Not addresses: the interface that the packet enters or leaves by, which a flow may leave open.
 */
function toInterfaceTest(group: string | number, config: OracleConfig): PeerTest {
  const number = groupNumber(group, config);
  if (number === undefined) throw new Error(`the configuration names no interface group ${group}`);
  return ({ interfaceGroup }) =>
    interfaceGroup !== undefined && groupNumber(interfaceGroup, config) === number;
}

function toAddressTest(peer: PeerManifest, context: PeerContext): AddressTest {
  const { objects, cluster, names, apiGroup } = context;
  if (peer.ipBlock !== undefined) return toBlockTest(peer.ipBlock);
  if (peer.nodeSelector !== undefined) return toNodesTest(cluster, peer.nodeSelector);
  if (peer.serviceAccount !== undefined) return toAccountTest(cluster, peer.serviceAccount);
  if (peer.group !== undefined) return toGroupTest(objects, cluster, peer.group, apiGroup);
  if (peer.fqdn !== undefined) return toListTest(resolveName(peer.fqdn, names));
  return toPodsTest(cluster, peer.podSelector, peer.namespaceSelector);
}
