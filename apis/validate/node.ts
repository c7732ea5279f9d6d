import { type Cidr, isCovered, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { DRAIN_ANNOTATION, type Namespace, type Node, type Pod } from '../objects.ts';
import { PLATFORM_ANNOTATION, type PlatformEntry, readPlatform } from '../platform.ts';
import { asFields, asList, type FieldMap } from '../schema/json-schema.ts';
import { canonicalCidr } from './ipblock.ts';
import { addAddress, fieldsAt, listAt, readMetadata, readNamespace, toIdentity, unique } from './metadata.ts';
import { isDnsLabel, isSubdomain } from './names.ts';
import { type Findings, hasError, show } from './problem.ts';

/** Further addresses of a Node, comma-separated. */
const ADDRESSES_ANNOTATION = 'nodewall.io/addresses';

/**
 * A node's own account may write its addresses, and every rule set of the cluster may have them.
 */
const MOST_ADDRESSES = 64;
/** The most addresses that a warning names. */
const MOST_SHOWN = 5;

const ADDRESS_TYPES: readonly unknown[] = [
  'InternalIP',
  'ExternalIP',
  'Hostname',
  'InternalDNS',
  'ExternalDNS',
];

/** The configuration on which the narrowing of a Node depends. */
interface NodeOptions {
  /** Absent or empty: every address counts. */
  readonly nodeCIDRs?: readonly string[];
  /** Whether egress gateways are read. */
  readonly egress?: boolean;
  /** Absent or empty: none is configured. */
  readonly startupTaint?: string;
}

export function validateNode(
  raw: FieldMap,
  { nodeCIDRs = [], egress = false, startupTaint = '' }: NodeOptions,
  found: Findings,
): Node | null {
  const { name, labels } = readMetadata(raw, isSubdomain, found);
  const addresses: string[] = [];
  const internal: string[] = [];
  fieldsAt(raw, ['status'], found);
  for (const [index, item] of listAt(raw, ['status', 'addresses'], found).entries()) {
    const fields = asFields(item);
    if (fields === null) {
      const message = `must be an object with type and address, not ${show(item)}; it is left out`;
      found.warning(['status', 'addresses', index], message);
      continue;
    }
    const { type, address } = fields;
    if (!ADDRESS_TYPES.includes(type)) {
      const message = `must be ${ADDRESS_TYPES.join(', ')}, not ${show(type)}; the address is left out`;
      found.warning(['status', 'addresses', index, 'type'], message);
    }
    if (type !== 'InternalIP' && type !== 'ExternalIP') continue;
    const before = addresses.length;
    addAddress(address, ['status', 'addresses', index, 'address'], addresses, found);
    if (type === 'InternalIP') internal.push(...addresses.slice(before));
  }
  const annotations = fieldsAt(raw, ['metadata', 'annotations'], found);
  const listed = annotations[ADDRESSES_ANNOTATION];
  const path = ['metadata', 'annotations', ADDRESSES_ANNOTATION];
  if (typeof listed === 'string') {
    for (const part of listed.split(',')) {
      if (part.trim() !== '') addAddress(part.trim(), path, addresses, found);
    }
  } else if (listed !== undefined) found.error(path, `must be text, not ${show(listed)}`);
  const platform = platformAt(annotations[PLATFORM_ANNOTATION], found);
  const podCIDRs = egress ? allPodNetworks(raw, found) : podNetworks(raw, found);
  if (hasError(found.problems)) return null;
  const networks = podCIDRs.length === 0 ? {} : { podCIDRs };
  const { inside, outside } = split(unique(addresses), nodeCIDRs, found);
  const ignored = outside.length === 0 ? {} : { ignoredAddresses: outside };
  const counted = limited(inside, found);
  const starting = hasTaint(raw, startupTaint) ? { startsSince: creationOf(raw) } : {};
  const carried = platform.length === 0 ? {} : { platform };
  const more = { ...ignored, ...carried, ...networks, ...starting };
  const node: Node = { kind: 'Node', name, labels, addresses: counted, ...more };
  if (!egress) return node;
  const { uid } = toIdentity(raw);
  const unready = unreadyReason(raw);
  const internalAddresses = unique(internal).filter((address) => counted.includes(address));
  return {
    ...node,
    ...(internalAddresses.length === 0 ? {} : { internalAddresses }),
    ...(uid === '' ? {} : { uid }),
    ...(unready === null ? {} : { unready }),
  };
}

function hasTaint(raw: FieldMap, key: string): boolean {
  return key !== '' && asList(asFields(raw.spec)?.taints).some((taint) => asFields(taint)?.key === key);
}

/** Items that say nothing are left out: the Node is a peer of policies. */
function platformAt(value: unknown, found: Findings): readonly PlatformEntry[] {
  const path = ['metadata', 'annotations', PLATFORM_ANNOTATION];
  if (value === undefined) return [];
  if (typeof value !== 'string') {
    found.error(path, `must be text, not ${show(value)}`);
    return [];
  }
  const { entries, invalid, leftOut } = readPlatform(value);
  if (invalid.length > 0) {
    const shown = invalid.slice(0, MOST_SHOWN).map(show).join(', ');
    const more = invalid.length > MOST_SHOWN ? ` and ${invalid.length - MOST_SHOWN} more` : '';
    const valid = 'tcp/PORT, udp/PORT-PORT, sctp/PORT, ipip, ipv6, gre, esp, ah or vrrp';
    found.warning(path, `${shown}${more}: must be ${valid}; left out`);
  }
  if (leftOut > 0) found.warning(path, `has too many entries; ${leftOut} are left out`);
  return entries;
}

function creationOf(raw: FieldMap): string {
  const time = asFields(raw.metadata)?.creationTimestamp;
  return typeof time === 'string' ? time : '';
}

/** A Node without the condition, as in manifests, counts as ready. */
function unreadyReason(raw: FieldMap): NonNullable<Node['unready']> | null {
  const ready = asList(asFields(raw.status)?.conditions)
    .map(asFields)
    .find((one) => one?.type === 'Ready');
  if (ready !== undefined && ready?.status !== 'True') return 'NotReady';
  if (asFields(raw.spec)?.unschedulable === true) return 'Cordoned';
  const drain = asFields(asFields(raw.metadata)?.annotations)?.[DRAIN_ANNOTATION];
  return drain === undefined || drain === 'false' ? null : 'Draining';
}

/** One warning names all addresses outside: a Node with too many problems would be invalid. */
function split(addresses: string[], nodeCIDRs: readonly string[], found: Findings) {
  if (nodeCIDRs.length === 0) return { inside: addresses, outside: [] };
  const cidrs: Cidr[] = nodeCIDRs.flatMap((text) => parseCidr(text)?.cidr ?? []);
  const { inside = [], outside = [] } = Object.groupBy(addresses, (text) => {
    const address = parseAddress(text);
    return address !== null && isCovered(cidrs, address) ? 'inside' : 'outside';
  });
  if (outside.length > 0) {
    const more = outside.length > MOST_SHOWN ? ` and ${outside.length - MOST_SHOWN} more` : '';
    const shown = outside.slice(0, MOST_SHOWN).join(', ');
    found.warning(['status', 'addresses'], `outside nodeCIDRs, and left out: ${shown}${more}`);
  }
  return { inside, outside: outside.slice(0, MOST_ADDRESSES) };
}

function limited(addresses: string[], found: Findings): string[] {
  if (addresses.length <= MOST_ADDRESSES) return addresses;
  const message = `the Node has ${addresses.length} addresses; those after the first ${MOST_ADDRESSES} are left out`;
  found.warning(['status', 'addresses'], message);
  return addresses.slice(0, MOST_ADDRESSES);
}

/** Lenient, because these networks only serve warnings: unreadable ones are left out. */
function podNetworks(raw: FieldMap, found: Findings): string[] {
  fieldsAt(raw, ['spec'], found);
  return listAt(raw, ['spec', 'podCIDRs'], found).filter(
    (text) => typeof text === 'string' && parseCidr(text) !== null,
  ) as string[];
}

/**
 * The networks of the Node's pods in canonical form, for egress gateways: traffic to them is never
 * steered, so one that is unreadable is a warning. Not an error: the Node is a peer of policies.
 */
function allPodNetworks(raw: FieldMap, found: Findings): string[] {
  const { podCIDR } = fieldsAt(raw, ['spec'], found);
  const listed = listAt(raw, ['spec', 'podCIDRs'], found).map((text, index) => {
    return { text, path: ['spec', 'podCIDRs', index] };
  });
  const single = podCIDR === undefined || podCIDR === null || podCIDR === '' ? [] : [podCIDR];
  const all = [...listed, ...single.map((text) => ({ text, path: ['spec', 'podCIDR'] }))];
  const networks = all.flatMap(({ text, path }) => {
    if (typeof text === 'string' && parseCidr(text) !== null) return [canonicalCidr(text)];
    found.warning(
      path,
      `${show(text)} is not a valid CIDR; it is left out, so traffic to these pods may be steered`,
    );
    return [];
  });
  return unique(networks);
}

/** Null without an error for a finished pod. */
export function validatePod(raw: FieldMap, readsEgress: boolean, found: Findings): Pod | null {
  const { name, labels } = readMetadata(raw, isSubdomain, found);
  const spec = fieldsAt(raw, ['spec'], found);
  const status = fieldsAt(raw, ['status'], found);
  const namespace = readNamespace(raw, found);
  const { hostNetwork = null } = spec;
  if (hostNetwork !== null && typeof hostNetwork !== 'boolean') {
    found.error(['spec', 'hostNetwork'], `must be true or false, not ${show(hostNetwork)}`);
  }
  const isHost = hostNetwork === true;
  const account = spec.serviceAccountName ?? '';
  if (status.phase === 'Succeeded' || status.phase === 'Failed') return null;
  const addresses = podAddresses(raw, status, found);
  if (typeof account !== 'string')
    found.error(['spec', 'serviceAccountName'], `must be text, not ${show(account)}`);
  const node = readsEgress ? (spec.nodeName ?? '') : '';
  if (typeof node !== 'string') found.error(['spec', 'nodeName'], `must be text, not ${show(node)}`);
  if (hasError(found.problems)) return null;
  const serviceAccount = account === '' ? 'default' : String(account);
  return {
    kind: 'Pod',
    namespace,
    name,
    labels,
    serviceAccount,
    addresses: isHost ? [] : addresses,
    ...(node === '' ? {} : { node: String(node) }),
    ...(isHost ? { hostNetwork: true, hostAddresses: addresses } : {}),
    ...(readsEgress ? runtimeUid(raw) : {}),
  };
}

/** The uid by which kubelet and CNI know the pod: that of a static pod is not its mirror's. */
function runtimeUid(raw: FieldMap): { readonly uid?: string } {
  const mirrored = asFields(asFields(raw.metadata)?.annotations)?.['kubernetes.io/config.mirror'];
  const uid = typeof mirrored === 'string' ? mirrored : toIdentity(raw).uid;
  return uid === '' ? {} : { uid };
}

export function validateNamespace(raw: FieldMap, found: Findings): Namespace | null {
  const { name, labels } = readMetadata(raw, isDnsLabel, found);
  return hasError(found.problems) ? null : { kind: 'Namespace', name, labels };
}

function podAddresses(raw: FieldMap, status: FieldMap, found: Findings): string[] {
  const addresses: string[] = [];
  const listed = listAt(raw, ['status', 'podIPs'], found);
  for (const [index, item] of listed.entries()) {
    addAddress(asFields(item)?.ip, ['status', 'podIPs', index, 'ip'], addresses, found);
  }
  const single = status.podIP;
  if (listed.length === 0 && single !== undefined && single !== null && single !== '') {
    addAddress(single, ['status', 'podIP'], addresses, found);
  }
  return unique(addresses);
}
