import { parseAddress } from '../../lib/net/address.ts';
import type { ApiGroup, NetworkPolicyPort, NetworkPolicyProtocol } from '../objects.ts';
import { asFields, type FieldMap } from '../schema/json-schema.ts';
import type { FieldPath, Findings } from './problem.ts';
import { show } from './problem.ts';

const RANGES = [
  ['port', 'endPort'],
  ['sourcePort', 'sourceEndPort'],
] as const;

export function checkPort(raw: unknown, path: FieldPath, found: Findings): void {
  const port = asFields(raw);
  if (port === null) return;
  for (const [first, last] of RANGES) {
    if (!(last in port)) continue;
    if (!(first in port)) found.error([...path, last], `needs ${first}, the start of the range`);
    else if (isBelow(port[last], port[first])) {
      const range = `${first} ${port[first]}`;
      found.error(
        [...path, last],
        `${port[last]} is below ${range}; the range must end where it starts or later`,
      );
    }
  }
}

function isBelow(last: unknown, first: unknown): boolean {
  return typeof last === 'number' && typeof first === 'number' && last < first;
}

export function checkProtocol(raw: unknown, path: FieldPath, apiGroup: ApiGroup, found: Findings): void {
  const protocol = asFields(raw);
  if (protocol === null) return;
  const names = Object.keys(protocol).filter((name) => ['icmp', 'icmpv6', 'igmp'].includes(name));
  if (Object.keys(protocol).length === 0)
    found.error(path, 'is empty; it needs one of icmp, icmpv6, igmp (icmp: {} is all of it)');
  if (names.length > 1) {
    found.error(path, `has ${names.join(' and ')} in one item; write one item for each (items are OR-ed)`);
  }
  if ('icmpv6' in protocol && apiGroup !== 'nodewall.io') {
    found.error(
      [...path, 'icmpv6'],
      `unknown field in ${apiGroup}; it belongs to nodewall.io/v1alpha1 policies`,
    );
  }
  for (const name of ['icmp', 'icmpv6']) {
    const fields = asFields(protocol[name]);
    if (fields !== null && 'icmpCode' in fields && !('icmpType' in fields)) {
      found.error([...path, name, 'icmpCode'], 'needs icmpType');
    }
  }
  checkGroupAddress(asFields(protocol.igmp), [...path, 'igmp', 'groupAddress'], found);
}

function checkGroupAddress(igmp: FieldMap | null, path: FieldPath, found: Findings): void {
  const text = igmp?.groupAddress;
  if (typeof text !== 'string') return;
  const address = parseAddress(text);
  if (address?.family === 4 && address.value >> 28n === 0xen) return;
  found.error(path, `${show(text)} is not an IPv4 multicast address (224.0.0.0 to 239.255.255.255)`);
}

/** Converts a port item that passed the checks; the schema admits no other fields. */
export function toPort(port: NetworkPolicyPort): NetworkPolicyPort {
  return { ...port };
}

export function toProtocol(protocol: NetworkPolicyProtocol): NetworkPolicyProtocol {
  return structuredClone(protocol);
}
