import { type Family, formatAddress, parseAddress } from '../../../lib/net/address.ts';
import { canonicalCidr, checkCidr } from '../../validate/ipblock.ts';
import { type FieldPath, type Findings, show } from '../../validate/problem.ts';
import { presentItems } from './present.ts';

/** An address in canonical form; null, with an error, if it is none of the family. */
export function toAddress(text: string, family: Family, path: FieldPath, found: Findings): string | null {
  const address = parseAddress(text);
  if (address !== null && address.family === family) return formatAddress(address);
  const example = family === 4 ? '192.0.2.10' : '2001:db8::10';
  found.error(path, `${show(text)} is not an IPv${family} address; for example ${example}`);
  return null;
}

/** CIDRs in canonical form, each once; items that are none are errors. */
export function toCidrList(list: readonly unknown[], path: FieldPath, found: Findings): string[] {
  const cidrs = presentItems(list).flatMap(([index, text]) =>
    checkCidr(text, [...path, index], found) === null ? [] : [canonicalCidr(text)],
  );
  return [...new Set(cidrs)];
}
