import { canonicalCidr, checkCidr } from '../../validate/ipblock.ts';
import type { FieldPath, Findings } from '../../validate/problem.ts';
import { presentItems } from './present.ts';

/** CIDRs in canonical form, each once; items that are none are errors. */
export function toCidrList(list: readonly unknown[], path: FieldPath, found: Findings): string[] {
  const cidrs = presentItems(list).flatMap(([index, text]) =>
    checkCidr(text, [...path, index], found) === null ? [] : [canonicalCidr(text)],
  );
  return [...new Set(cidrs)];
}
