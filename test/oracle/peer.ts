import { type Address, parseAddress } from './address.ts';
import type { Cluster } from './cluster.ts';
import type { Names, OracleConfig, Packet } from './flow.ts';
import { groupNamesPods, toGroupTest } from './group.ts';
import { assertOnlyFields, type PeerManifest } from './manifest.ts';
import {
  type AddressTest,
  isSingle,
  toAccountTest,
  toBlockTest,
  toListTest,
  toNodesTest,
  toPodsTest,
} from './member.ts';

/** Answers whether a packet comes from (ingress) or goes to (egress) one of a rule's peers. */
export type PeerTest = (packet: Packet) => boolean;

/** What peers are resolved against. */
interface PeerContext {
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

/**
 * What an `fqdn` resolves to: the addresses of that name, or of all names that `*.example.com`
 * matches.
 */
export function resolveName(fqdn: string, names: Names): Address[] {
  const wanted = normalised(fqdn);
  const suffix = wanted.startsWith('*.') ? wanted.slice(1) : undefined;
  if ((suffix ?? wanted).includes('*') || wanted.replace('*.', '') === '') {
    throw new Error(`the oracle does not evaluate the name ${fqdn}`);
  }
  const isMatch = (name: string) =>
    suffix === undefined ? name === wanted : name.endsWith(suffix) && name.length > suffix.length;
  return Object.entries(names).flatMap(([name, addresses]) =>
    isMatch(normalised(name)) ? addresses.map(readAddress) : [],
  );
}

/** Names compare without case and without the dot of the root. */
function normalised(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

function readAddress(text: string): Address {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`not an address: ${text}`);
  return address;
}

const defaultGroups = { pods: 8, clusternet: 9 };

/**
 * The number of a link group, by number or by its name in the configuration; undefined for an
 * unknown name.
 */
export function groupNumber(group: string | number, config: OracleConfig): number | undefined {
  if (typeof group === 'number') return group;
  const groups: NonNullable<OracleConfig['interfaceGroups']> = {
    ...defaultGroups,
    ...config.interfaceGroups,
  };
  const entry = Object.hasOwn(groups, group) ? groups[group] : undefined;
  return typeof entry === 'object' ? entry.group : entry;
}
