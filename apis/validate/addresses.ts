import { type Family, formatAddress, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { type Interval, parsePoolRange, toInterval } from '../../lib/net/interval.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

/** Networks of which no address can be a source outside of the cluster. */
const RESERVED = (
  [
    ['0.0.0.0/8', 'an address of "this network"'],
    ['127.0.0.0/8', 'loopback'],
    ['169.254.0.0/16', 'link-local'],
    ['224.0.0.0/4', 'multicast'],
    ['255.255.255.255/32', 'broadcast'],
    ['::/128', 'the unspecified address'],
    ['::1/128', 'loopback'],
    ['::ffff:0:0/96', 'IPv4-mapped'],
    ['fe80::/10', 'link-local'],
    ['ff00::/8', 'multicast'],
  ] as const
).flatMap(([text, name]) => {
  const parsed = parseCidr(text);
  return parsed === null ? [] : [{ family: parsed.cidr.family, range: toInterval(parsed.cidr), text, name }];
});

/** A reason why a range cannot hold addresses of a gateway; null: it can. */
function unusable(family: Family, { first, last }: Interval): string | null {
  const hit = RESERVED.find(
    ({ family: of, range }) => of === family && range.first <= last && first <= range.last,
  );
  return hit === undefined ? null : `${hit.name} (${hit.text})`;
}

/** Checks one range of a pool. */
export function checkRange(text: string, path: FieldPath, found: Findings): void {
  const range = parsePoolRange(text);
  if (range === null) {
    found.error(path, `${show(text)} is not a range of addresses: IP, IP-IP (lower first) or CIDR`);
    return;
  }
  if (range.hostBits) {
    found.warning(path, `${text} has bits set after the prefix; it is read as ${range.text}`);
  }
  const reason = unusable(range.family, range.addresses);
  if (reason !== null) found.error(path, `${text} has addresses that no gateway can have: ${reason}`);
}

/** Checks an address of a policy or of a probe. */
export function checkAddress(text: string, families: readonly Family[], path: FieldPath, found: Findings) {
  const address = parseAddress(text);
  if (address === null || !families.includes(address.family)) {
    const [only, other] = families;
    const what = other === undefined ? `an IPv${only} address` : 'an IP address';
    found.error(path, `${show(text)} is not ${what}`);
    return;
  }
  const reason = unusable(address.family, { first: address.value, last: address.value });
  if (reason !== null) found.error(path, `${text} is ${reason}`);
}

/** Converts an address that passed the checks to canonical form. */
export function canonicalAddress(text: string): string {
  const address = parseAddress(text);
  return address === null ? text : formatAddress(address);
}
