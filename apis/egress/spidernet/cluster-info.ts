import { BITS, parseAddress, parseCidr } from '../../../lib/net/address.ts';
import { asFields, asList, type FieldMap } from '../../schema/json-schema.ts';
import { canonicalCidr } from '../../validate/ipblock.ts';
import { type FieldPath, type Findings, show } from '../../validate/problem.ts';
import { presentItems } from './present.ts';

/**
 * The networks of an EgressClusterInfo: those that its user added (`extraCidr`), and those that the
 * controller of egressgateway.spidernet.io found. Items that are none are left out with a warning:
 * without the object the other networks would be steered.
 */
export function toInsideCidrs(spec: FieldMap, status: unknown, found: Findings): string[] {
  const { egressIgnoreCIDR, ...fields } = asFields(status) ?? {};
  return [
    ...new Set([
      ...toCidrs(asList(spec.extraCidr), ['spec', 'extraCidr'], found),
      ...networks(fields, ['status'], found),
      // In 2023.
      ...networks(asFields(egressIgnoreCIDR) ?? {}, ['status', 'egressIgnoreCIDR'], found),
    ]),
  ];
}

function networks(fields: FieldMap, path: FieldPath, found: Findings): string[] {
  return ['clusterIP', 'nodeIP', 'podCIDR', 'extraCidr'].flatMap((field) =>
    listed(fields[field], [...path, field], 0, found),
  );
}

/** A list, or lists by family, or by node or pool and by family. */
function listed(value: unknown, path: FieldPath, depth: number, found: Findings): string[] {
  if (Array.isArray(value)) return toCidrs(value, path, found);
  if (depth === 2) return [];
  return Object.entries(asFields(value) ?? {}).flatMap(([key, item]) =>
    listed(item, [...path, key], depth + 1, found),
  );
}

function toCidrs(list: readonly unknown[], path: FieldPath, found: Findings): string[] {
  return presentItems(list).flatMap(([index, text]) => {
    const address = parseAddress(text);
    if (address !== null) return [canonicalCidr(`${text}/${BITS[address.family]}`)];
    if (parseCidr(text) !== null) return [canonicalCidr(text)];
    found.warning([...path, index], `${show(text)} is not an address or a CIDR; it is left out`);
    return [];
  });
}
