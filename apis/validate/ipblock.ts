import { type Cidr, covers, formatAddress, ipv4Of, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { subtract, toInterval, union } from '../../lib/net/interval.ts';
import type { IPBlock } from '../objects.ts';
import { asFields, asList } from '../schema/json-schema.ts';
import type { FieldPath, Findings } from './problem.ts';
import { show } from './problem.ts';

/**
 * Parses a CIDR and masks its host bits, with a warning if any are set. Null, with an error, if the
 * text is not a CIDR.
 */
export function checkCidr(text: string, path: FieldPath, found: Findings): Cidr | null {
  const parsed = parseCidr(text);
  if (parsed === null) {
    const address = parseAddress(text);
    const hint =
      address === null
        ? 'for example 10.0.0.0/8 or 2001:db8::/32'
        : `for this address alone write ${text}/${address.family === 4 ? 32 : 128}`;
    found.error(path, `${show(text)} is not a valid CIDR; ${hint}`);
    return null;
  }
  const mapped = ipv4Of(parsed.cidr);
  if (mapped !== null) {
    found.error(path, `${text} is IPv4-mapped, and no packet has such an address; write ${cidrText(mapped)}`);
    return null;
  }
  if (parsed.hostBits) {
    found.warning(path, `${text} has bits set after the prefix; it is read as ${cidrText(parsed.cidr)}`);
  }
  return parsed.cidr;
}

/** Checks the CIDRs of a list; values of the wrong type are reported by the schema. */
export function checkCidrs(list: unknown, path: FieldPath, found: Findings): void {
  for (const [index, cidr] of asList(list).entries())
    if (typeof cidr === 'string') checkCidr(cidr, [...path, index], found);
}

/** Formats as `address/length`, also for a single address. */
function cidrText(cidr: Cidr): string {
  return `${formatAddress(cidr)}/${cidr.length}`;
}

export function checkIpBlock(raw: unknown, path: FieldPath, found: Findings): void {
  const { cidr: cidrRaw, except } = asFields(raw) ?? {};
  const cidr = typeof cidrRaw === 'string' ? checkCidr(cidrRaw, [...path, 'cidr'], found) : null;
  const holes: Cidr[] = [];
  for (const [index, text] of asList(except).entries()) {
    if (typeof text !== 'string') continue;
    const at = [...path, 'except', index];
    const hole = checkCidr(text, at, found);
    if (hole === null || cidr === null) continue;
    if (!covers(cidr, hole)) {
      found.error(at, `${text} is not inside ${cidrText(cidr)}; an exception must be part of the cidr`);
    } else if (cidr.length === hole.length) {
      found.error(at, `${text} is the whole cidr; this peer would match nothing`);
    } else holes.push(hole);
  }
  if (cidr === null || holes.length < 2) return;
  if (subtract([toInterval(cidr)], union(holes.map(toInterval))).length === 0) {
    found.warning([...path, 'except'], `together cover all of ${cidrText(cidr)}; this peer matches nothing`);
  }
}

/** Converts a block that passed the checks to canonical form. */
export function toIpBlock({ cidr, except = [] }: IPBlock): IPBlock {
  if (except.length === 0) return { cidr: canonicalCidr(cidr) };
  return { cidr: canonicalCidr(cidr), except: except.map(canonicalCidr) };
}

/** Converts a CIDR that passed checkCidr to canonical form, host bits masked. */
export function canonicalCidr(text: string): string {
  const parsed = parseCidr(text);
  return parsed === null ? text : cidrText(parsed.cidr);
}
