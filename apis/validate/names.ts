import { asFields } from '../schema/json-schema.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const SUBDOMAIN = new RegExp(`^${LABEL}(\\.${LABEL})*$`);
const DNS_LABEL = new RegExp(`^${LABEL}$`);
const LABEL_NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;

/** Whether the name is a DNS-1123 subdomain, as the names of most Kubernetes objects are. */
export function isSubdomain(name: string): boolean {
  return name.length <= 253 && SUBDOMAIN.test(name);
}

/** Whether the name is a DNS-1123 label, as the name of a Namespace is. */
export function isDnsLabel(name: string): boolean {
  return name.length <= 63 && DNS_LABEL.test(name);
}

export const SUBDOMAIN_FORM =
  'lower-case letters, digits, "-" and ".", starting and ending with a letter or digit, at most 253 characters';

/** Accepts `example.com/role` or `role`. */
function isLabelKey(key: string): boolean {
  const slash = key.indexOf('/');
  const name = key.slice(slash + 1);
  return name.length <= 63 && LABEL_NAME.test(name) && (slash < 0 || isSubdomain(key.slice(0, slash)));
}

function isLabelValue(value: string): boolean {
  return value === '' || (value.length <= 63 && LABEL_NAME.test(value));
}

export function checkLabelKey(key: string, path: FieldPath, found: Findings): void {
  if (isLabelKey(key)) return;
  found.error(
    path,
    `${show(key)} is not a valid label key: it must be a name of letters, digits, "-", "_" and ".", at most 63 characters, ` +
      'with or without a DNS name and "/" before it',
  );
}

export function checkLabelValue(value: string, path: FieldPath, found: Findings): void {
  if (isLabelValue(value)) return;
  found.error(
    path,
    `${show(value)} is not a valid label value: letters, digits, "-", "_" and ".", starting and ending with a letter or digit, ` +
      'at most 63 characters',
  );
}

/** Checks a reference to a ClusterGroup. */
export function checkGroupName(name: string, path: FieldPath, found: Findings): void {
  if (!isSubdomain(name))
    found.error(path, `${show(name)} is not a valid name of a ClusterGroup: ${SUBDOMAIN_FORM}`);
}

/** Checks a reference `{name, namespace}`. Values of the wrong type are reported by the schema. */
export function checkNamespacedName(raw: unknown, kind: string, path: FieldPath, found: Findings): void {
  const { name, namespace } = asFields(raw) ?? {};
  if (typeof name === 'string' && !isSubdomain(name)) {
    found.error([...path, 'name'], `${show(name)} is not a valid name of a ${kind}`);
  }
  if (typeof namespace === 'string' && !isDnsLabel(namespace)) {
    found.error([...path, 'namespace'], `${show(namespace)} is not a valid name of a Namespace`);
  }
}
