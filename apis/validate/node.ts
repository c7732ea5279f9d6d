import { isIPv4 } from 'node:net';
import { formatAddress, parseAddress } from '../address.ts';
import type { Labels, Namespace, Node, Pod } from '../objects.ts';
import { asFields, type FieldMap } from '../schema/jsonschema.ts';
import { isDnsLabel, isSubdomain, SUBDOMAIN_FORM } from './names.ts';
import type { FieldPath, Findings } from './problem.ts';
import { hasError, show } from './problem.ts';

/** Further addresses of a Node, comma-separated. */
const ADDRESSES_ANNOTATION = 'nodewall.io/addresses';

export function validateNode(raw: FieldMap, found: Findings): Node | null {
  const { name, labels } = readMetadata(raw, isSubdomain, found);
  const addresses: string[] = [];
  for (const [index, item] of listAt(raw, ['status', 'addresses'], found).entries()) {
    const { type, address } = asFields(item) ?? {};
    if (type !== 'InternalIP' && type !== 'ExternalIP') continue;
    addAddress(address, ['status', 'addresses', index, 'address'], addresses, found);
  }
  const annotations = fieldsAt(raw, ['metadata', 'annotations'], found);
  const listed = annotations[ADDRESSES_ANNOTATION];
  const path = ['metadata', 'annotations', ADDRESSES_ANNOTATION];
  if (typeof listed === 'string') {
    for (const part of listed.split(',')) {
      if (part.trim() !== '') addAddress(part.trim(), path, addresses, found);
    }
  } else if (listed !== undefined) found.error(path, `must be text, not ${show(listed)}`);
  if (hasError(found.problems)) return null;
  return { kind: 'Node', name, labels, addresses: unique(addresses) };
}

/** Null without an error for a pod that can't be a peer: hostNetwork, or finished. */
export function validatePod(raw: FieldMap, found: Findings): Pod | null {
  const { name, labels } = readMetadata(raw, isSubdomain, found);
  const spec = fieldsAt(raw, ['spec'], found);
  const status = fieldsAt(raw, ['status'], found);
  const namespace = readNamespace(raw, found);
  if (spec.hostNetwork === true || status.phase === 'Succeeded' || status.phase === 'Failed') return null;
  const addresses = podAddresses(raw, status, found);
  const account = spec.serviceAccountName ?? '';
  if (typeof account !== 'string')
    found.error(['spec', 'serviceAccountName'], `must be text, not ${show(account)}`);
  if (hasError(found.problems)) return null;
  const serviceAccount = account === '' ? 'default' : String(account);
  return { kind: 'Pod', namespace, name, labels, serviceAccount, addresses };
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

function addAddress(raw: unknown, path: FieldPath, addresses: string[], found: Findings): void {
  if (typeof raw === 'string') {
    const address = isIPv4(raw) ? raw : parseAddress(raw);
    if (address !== null) {
      addresses.push(typeof address === 'string' ? address : formatAddress(address));
      return;
    }
  }
  const what = raw === undefined ? 'is missing' : `${show(raw)} is no IP address`;
  found.warning(path, `${what}; it is left out`);
}

/** An array of its own: one that was pushed into has room for 17, in V8, and there are 100,000 pods. */
function unique(addresses: readonly string[]): string[] {
  return addresses.length < 2 ? addresses.slice() : [...new Set(addresses)];
}

function readNamespace(raw: FieldMap, found: Findings): string {
  const namespace = asFields(raw.metadata)?.namespace ?? '';
  if (namespace === '') return 'default';
  if (typeof namespace === 'string' && isDnsLabel(namespace)) return namespace;
  found.error(['metadata', 'namespace'], `${show(namespace)} is no name of a Namespace`);
  return '';
}

function readMetadata(
  raw: FieldMap,
  isName: (name: string) => boolean,
  found: Findings,
): { readonly name: string; readonly labels: Labels } {
  const { name } = fieldsAt(raw, ['metadata'], found);
  if (name === undefined || name === null || name === '') {
    found.error(['metadata', 'name'], 'is missing; every object needs a name');
  } else if (typeof name !== 'string') {
    found.error(['metadata', 'name'], `must be text, not ${show(name)}; put it in quotes`);
  } else if (!isName(name))
    found.error(['metadata', 'name'], `${show(name)} is no valid name: ${SUBDOMAIN_FORM}`);
  const labels = fieldsAt(raw, ['metadata', 'labels'], found);
  for (const [key, value] of Object.entries(labels)) {
    if (typeof value === 'string') continue;
    found.error(['metadata', 'labels', key], `must be text, not ${show(value)}; put it in quotes`);
  }
  return { name: typeof name === 'string' ? name : '', labels: labels as Labels };
}

/** Fields of an object that may be absent; anything else there is an error. */
function fieldsAt(raw: FieldMap, path: readonly string[], found: Findings): FieldMap {
  const value = valueAt(raw, path);
  if (value === undefined || value === null) return {};
  const fields = asFields(value);
  if (fields === null) found.error(path, `must be an object with fields, not ${show(value)}`);
  return fields ?? {};
}

function listAt(raw: FieldMap, path: readonly string[], found: Findings): readonly unknown[] {
  const value = valueAt(raw, path);
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value;
  found.error(path, `must be a list, not ${show(value)}`);
  return [];
}

function valueAt(raw: FieldMap, path: readonly string[]): unknown {
  let value: unknown = raw;
  for (const field of path) value = asFields(value)?.[field];
  return value;
}
