import {
  BITS,
  type Family,
  formatAddress,
  formatCidr,
  parseAddress,
  parseCidr,
} from '../../lib/net/address.ts';
import { type Interval, toInterval } from '../../lib/net/interval.ts';

/** One range of a gateway's address pools. */
export interface PoolRange {
  readonly family: Family;
  /** The addresses that may be given out: of an IPv4 CIDR neither network nor broadcast. */
  readonly addresses: Interval;
  /** In canonical form, host bits masked. */
  readonly text: string;
  /** Whether it is a CIDR with bits set after the prefix. */
  readonly hostBits: boolean;
}

/** Parses `IP`, `IP-IP` or a CIDR; null: it is none of them, or the first address is the higher. */
export function parsePoolRange(text: string): PoolRange | null {
  const parsed = parseCidr(text);
  if (parsed !== null) {
    const { cidr, hostBits } = parsed;
    const { first, last } = toInterval(cidr);
    const ends = cidr.family === 4 && cidr.length <= BITS[4] - 2 ? 1n : 0n;
    const addresses = { first: first + ends, last: last - ends };
    return { family: cidr.family, addresses, text: formatCidr(cidr), hostBits };
  }
  const [from = '', to = from, ...more] = text.split('-');
  const first = parseAddress(from);
  const last = parseAddress(to);
  if (first === null || last === null || more.length > 0) return null;
  if (first.family !== last.family || first.value > last.value) return null;
  const addresses = { first: first.value, last: last.value };
  const ends = first.value === last.value ? [first] : [first, last];
  return { family: first.family, addresses, text: ends.map(formatAddress).join('-'), hostBits: false };
}
