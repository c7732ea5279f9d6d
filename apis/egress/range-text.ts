import { type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';

/** `FIRST-LAST`, or the address if it is one. */
export function formatRange(family: Family, { first, last }: Interval): string {
  const from = formatAddress({ family, value: first });
  return first === last ? from : `${from}-${formatAddress({ family, value: last })}`;
}

/** Reads `formatRange`. Throws if the text is not valid. */
export function readRange(text: string): { readonly family: Family; readonly range: Interval } {
  const [from = '', to = from, ...more] = text.split('-');
  const [first, last] = [parseAddress(from), parseAddress(to)];
  if (first === null || first.family !== last?.family || first.value > last.value || more.length > 0)
    throw new Error(`egress: ${JSON.stringify(text)} is not a valid range`);
  return { family: first.family, range: { first: first.value, last: last.value } };
}
