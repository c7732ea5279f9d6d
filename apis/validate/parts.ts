import { isIPv4 } from 'node:net';
import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import type { Labels } from '../objects.ts';
import { asFields, type FieldMap } from '../schema/json-schema.ts';
import { isDnsLabel, SUBDOMAIN_FORM } from './names.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

/**
 * Checks shared by Kubernetes' own kinds. The API server has validated these objects: fields that
 * nodewall does not use are not checked.
 */

/** Adds an address in canonical form; a value that is not an address is left out with a warning. */
export function addAddress(raw: unknown, path: FieldPath, addresses: string[], found: Findings): void {
  if (typeof raw === 'string') {
    const address = isIPv4(raw) ? raw : parseAddress(raw);
    if (address !== null) {
      addresses.push(typeof address === 'string' ? address : formatAddress(address));
      return;
    }
  }
  const what = raw === undefined ? 'is missing' : `${show(raw)} is not an IP address`;
  found.warning(path, `${what}; it is left out`);
}

/**
 * Returns a new array without duplicates. Copied even if nothing changes: V8 reserves room for 17
 * items in an array that was pushed into, and there may be 100,000 pods.
 */
export function unique(addresses: readonly string[]): string[] {
  return addresses.length < 2 ? addresses.slice() : [...new Set(addresses)];
}

/** The object's namespace; `default` if it has none. */
export function readNamespace(raw: FieldMap, found: Findings): string {
  const namespace = asFields(raw.metadata)?.namespace ?? '';
  if (namespace === '') return 'default';
  if (typeof namespace === 'string' && isDnsLabel(namespace)) return namespace;
  found.error(['metadata', 'namespace'], `${show(namespace)} is not a valid name of a Namespace`);
  return '';
}

/** Reads and checks name and labels. */
export function readMetadata(
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
    found.error(['metadata', 'name'], `${show(name)} is not a valid name: ${SUBDOMAIN_FORM}`);
  const labels = fieldsAt(raw, ['metadata', 'labels'], found);
  for (const [key, value] of Object.entries(labels)) {
    if (typeof value === 'string') continue;
    found.error(['metadata', 'labels', key], `must be text, not ${show(value)}; put it in quotes`);
  }
  return { name: typeof name === 'string' ? name : '', labels: labels as Labels };
}

/** The fields of an object that may be absent; a value of another type is an error. */
export function fieldsAt(raw: FieldMap, path: readonly string[], found: Findings): FieldMap {
  const value = valueAt(raw, path);
  if (value === undefined || value === null) return {};
  const fields = asFields(value);
  if (fields === null) found.error(path, `must be an object with fields, not ${show(value)}`);
  return fields ?? {};
}

/** A list that may be absent; a value of another type is an error. */
export function listAt(raw: FieldMap, path: readonly string[], found: Findings): readonly unknown[] {
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
