import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import { API_SERVER } from '../control-plane.ts';
import type { EndpointSlice, Labels, Service, ServicePort } from '../objects.ts';
import { asFields, asList, type FieldMap } from '../schema/json-schema.ts';
import { addAddress, fieldsAt, listAt, readMetadata, readNamespace, unique } from './metadata.ts';
import { isSubdomain } from './names.ts';
import { type FieldPath, type Findings, hasError, show } from './problem.ts';

/**
 * Validates a v1 Service. One of type ExternalName has only a name: no selector and no cluster IPs.
 */
export function validateService(raw: FieldMap, found: Findings): Service | null {
  const { name } = readMetadata(raw, isSubdomain, found);
  const namespace = readNamespace(raw, found);
  const { type, clusterIP } = fieldsAt(raw, ['spec'], found);
  const selector = readSelector(raw, found);
  const clusterIPs = readClusterIPs(raw, clusterIP, found);
  const ports = readPorts(raw, ['spec', 'ports'], found);
  if (hasError(found.problems)) return null;
  const external = readExternalAddresses(raw);
  const externalAddresses = external.length === 0 ? {} : { externalAddresses: external };
  const port = asFields(raw.spec)?.healthCheckNodePort;
  const isPort = typeof port === 'number' && port > 0 && port <= 65_535;
  const health = isPort ? { healthCheckNodePort: port } : {};
  if (type === 'ExternalName') {
    return { kind: 'Service', namespace, name, selector: null, clusterIPs: [], ...externalAddresses, ports };
  }
  const addresses = { clusterIPs, ...externalAddresses, ...health };
  return { kind: 'Service', namespace, name, selector, ...addresses, ports };
}

/**
 * Lenient, because no rule uses these addresses: unreadable ones are left out. A load balancer that
 * has only a host name has none.
 */
function readExternalAddresses(raw: FieldMap): readonly string[] {
  const listed = asList(asFields(raw.spec)?.externalIPs);
  const balancer = asFields(asFields(raw.status)?.loadBalancer);
  const given = asList(balancer?.ingress).map((one) => asFields(one)?.ip);
  const texts = [...listed, ...given].filter((one) => typeof one === 'string');
  return unique(texts.flatMap((text) => parseAddress(text) ?? []).map(formatAddress));
}

/**
 * Null for an absent or empty selector: the Service selects no pods, and its endpoints are
 * maintained by a third party.
 */
function readSelector(raw: FieldMap, found: Findings): Labels | null {
  const selector = fieldsAt(raw, ['spec', 'selector'], found);
  for (const [key, value] of Object.entries(selector)) {
    if (typeof value === 'string') continue;
    found.error(['spec', 'selector', key], `must be text, not ${show(value)}; put it in quotes`);
  }
  return Object.keys(selector).length === 0 ? null : (selector as Labels);
}

function readClusterIPs(raw: FieldMap, single: unknown, found: Findings): readonly string[] {
  const addresses: string[] = [];
  const listed = listAt(raw, ['spec', 'clusterIPs'], found);
  for (const [index, value] of listed.entries()) {
    if (!isNone(value)) addAddress(value, ['spec', 'clusterIPs', index], addresses, found);
  }
  const isThere = single !== undefined && single !== null && !isNone(single);
  if (listed.length === 0 && isThere) addAddress(single, ['spec', 'clusterIP'], addresses, found);
  return unique(addresses);
}

/** The clusterIP of a Service without an address of its own: '' or None. */
function isNone(value: unknown): boolean {
  return value === '' || value === 'None';
}

const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';

/** The Service whose endpoints the API server itself writes. */
const SERVICE_OF_API_SERVER = `${API_SERVER.namespace}/${API_SERVER.name}`;

/**
 * Null without an error for a slice that belongs to no Service, or that holds names instead of
 * addresses. `withoutPods` is `endpointsWithoutPods` of the configuration.
 */
export function validateEndpointSlice(
  raw: FieldMap,
  withoutPods: readonly string[],
  found: Findings,
): EndpointSlice | null {
  const { name, labels } = readMetadata(raw, isSubdomain, found);
  const namespace = readNamespace(raw, found);
  const service = labels[SERVICE_NAME_LABEL] ?? '';
  if (service === '' || raw.addressType === 'FQDN') return null;
  const addresses: string[] = [];
  for (const [index, item] of listAt(raw, ['endpoints'], found).entries()) {
    addEndpoint(item, ['endpoints', index], addresses, found);
  }
  const ports = readPorts(raw, ['ports'], found);
  if (hasError(found.problems)) return null;
  const slice = { kind: 'EndpointSlice', namespace, name, service } as const;
  const isTrusted = [SERVICE_OF_API_SERVER, ...withoutPods].includes(`${namespace}/${service}`);
  return { ...slice, addresses: unique(addresses), ports, ...(isTrusted ? { isTrusted } : {}) };
}

/** An endpoint without a `ready` condition is ready. */
function addEndpoint(raw: unknown, path: FieldPath, addresses: string[], found: Findings): void {
  const { conditions, addresses: listed } = asFields(raw) ?? {};
  const isThere = conditions !== undefined && conditions !== null;
  const { ready } = asFields(conditions) ?? {};
  if (isThere && asFields(conditions) === null) {
    const message = `must be an object with fields, not ${show(conditions)}; the endpoint is left out`;
    found.warning([...path, 'conditions'], message);
    return;
  }
  if (ready !== undefined && ready !== null && typeof ready !== 'boolean') {
    const message = `must be true or false, not ${show(ready)}; the endpoint is left out`;
    found.warning([...path, 'conditions', 'ready'], message);
    return;
  }
  if (ready === false) return;
  if (!Array.isArray(listed)) {
    const what = listed === undefined ? 'is missing' : `must be a list, not ${show(listed)}`;
    found.warning([...path, 'addresses'], `${what}; the endpoint is left out`);
    return;
  }
  for (const [index, address] of listed.entries()) {
    addAddress(address, [...path, 'addresses', index], addresses, found);
  }
}

const PROTOCOLS: readonly unknown[] = ['TCP', 'UDP', 'SCTP'];

/** Leaves out ports without a number (any port), which have no number to match. */
function readPorts(raw: FieldMap, path: readonly string[], found: Findings): readonly ServicePort[] {
  const ports: ServicePort[] = [];
  for (const [index, item] of listAt(raw, path, found).entries()) {
    const fields = asFields(item);
    if (fields === null) {
      const message = `must be an object with fields, not ${show(item)}; it is left out`;
      found.warning([...path, index], message);
      continue;
    }
    const { protocol = 'TCP', port } = fields;
    if (port === undefined || port === null) continue;
    if (!PROTOCOLS.includes(protocol)) {
      const message = `must be TCP, UDP or SCTP, not ${show(protocol)}; the port is left out`;
      found.warning([...path, index, 'protocol'], message);
    } else if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > 65535) {
      found.warning([...path, index, 'port'], `${show(port)} is not a port (1 to 65535); it is left out`);
    } else if (!ports.some((other) => other.port === port && other.protocol === protocol)) {
      ports.push({ protocol: protocol as ServicePort['protocol'], port });
    }
  }
  return ports.slice();
}
