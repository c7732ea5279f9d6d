import type { InsideNetworks } from '../../egress/objects.ts';
import type { FieldMap } from '../../schema/json-schema.ts';
import { canonicalCidr, checkCidr } from '../ipblock.ts';
import { isSubdomain } from '../names.ts';
import { fieldsAt, listAt, readMetadata, unique } from '../parts.ts';
import { type FieldPath, type Findings, hasError, show } from '../problem.ts';

/** A ServiceCIDR of Kubernetes: networks of which Services have addresses. */
export function validateServiceCidr(raw: FieldMap, found: Findings): InsideNetworks | null {
  const path = ['spec', 'cidrs'];
  const cidrs = listAt(raw, path, found).map((text, index) => ({ text, path: [...path, index] }));
  return toNetworks('ServiceCIDR', raw, cidrs, found);
}

/** An IPPool of Calico: a network of which pods have addresses, a disabled one too. */
export function validateIpPool(raw: FieldMap, found: Findings): InsideNetworks | null {
  const { cidr } = fieldsAt(raw, ['spec'], found);
  return toNetworks('IPPool', raw, [{ text: cidr, path: ['spec', 'cidr'] }], found);
}

function toNetworks(
  kind: InsideNetworks['kind'],
  raw: FieldMap,
  cidrs: readonly { readonly text: unknown; readonly path: FieldPath }[],
  found: Findings,
): InsideNetworks | null {
  const { name } = readMetadata(raw, isSubdomain, found);
  for (const { text, path } of cidrs) {
    if (typeof text === 'string') checkCidr(text, path, found);
    else found.error(path, text === undefined ? 'is missing' : `must be a CIDR, not ${show(text)}`);
  }
  if (hasError(found.problems)) return null;
  return { kind, name, cidrs: unique(cidrs.map(({ text }) => canonicalCidr(String(text)))) };
}
