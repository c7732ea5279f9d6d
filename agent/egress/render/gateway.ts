import type { EgressTake } from '../../../apis/egress/node-egress.ts';
import { type Address, BITS, FAMILIES, type Family, parseAddress } from '../../../lib/net/address.ts';
import {
  type Chain,
  type Match,
  type NftRule,
  plainChain,
  plainRule,
  type Statement,
} from '../../render/ruleset.ts';
import type { ChainVerdict } from '../../render/verdict-map.ts';
import { dropRule } from './counted.ts';

function translateChain(take: number): string {
  return `egress-translate-${take}`;
}

/** The entry of a take in the map of source NAT. */
export function translation(take: number): ChainVerdict {
  return { kind: 'goto', chain: translateChain(take) };
}

function sealedChain(take: number): string {
  return `egress-sealed-${take}`;
}

/** The entry of a take in the map of what may leave. */
export function seal(take: number): ChainVerdict {
  return { kind: 'goto', chain: sealedChain(take) };
}

/** After source NAT: lets a connection leave with an address of its take alone. */
export function sealedChains(number: number, take: EgressTake): Chain[] {
  const rules = ownSources(take).map((match) => plainRule({ kind: 'return' }, match));
  return [plainChain(sealedChain(number), [...rules, dropRule('no-address', TRANSLATED)])];
}

function ownSources(take: EgressTake): Match[] {
  if (take.kind === 'node' && take.interface === null) return [{ match: 'local', field: 'saddr' }];
  const { ipv4, ipv6 } = addressesOf(take);
  return [...ipv4, ...ipv6].map(isSource);
}

function isSource(text: string): Match {
  const address = toAddress(text);
  const cidr = { ...address, length: BITS[address.family] };
  return { match: 'address', family: address.family, field: 'saddr', in: { cidr } };
}

function toAddress(text: string): Address {
  const address = parseAddress(text);
  if (address === null) throw new RangeError(`${text} is not an address`);
  return address;
}

const TRANSLATED = 'translated by others';

/**
 * Source NAT of a take. The port stays where it is free, so that another node can go on with the
 * connection. A family that has no address is dropped: another program's NAT would give it one. So
 * is a take by the address of an interface, unless the address is known (agent/egress/health/).
 */
export function takeChains(number: number, take: EgressTake): Chain[] {
  const chain = translateChain(number);
  if (take.kind === 'node' && take.interface === null) {
    return [plainChain(chain, [plainRule({ kind: 'masquerade', random: false })])];
  }
  const addresses = addressesOf(take);
  const translated = FAMILIES.map((family) =>
    toOneOf(chain, family, family === 4 ? addresses.ipv4 : addresses.ipv6),
  );
  const drop = dropRule('no-address', 'no address of this family');
  const rules = [...translated.flatMap(({ rules: own }) => own), drop];
  return [plainChain(chain, rules), ...translated.flatMap(({ chains }) => chains)];
}

function addressesOf(take: EgressTake): {
  readonly ipv4: readonly string[];
  readonly ipv6: readonly string[];
} {
  if (take.kind === 'floating') return take;
  const { ipv4, ipv6 } = take.found ?? {};
  return { ipv4: ipv4 === undefined ? [] : [ipv4], ipv6: ipv6 === undefined ? [] : [ipv6] };
}

/** One of several addresses by the source, so that a pod keeps its address. */
function toOneOf(
  chain: string,
  family: Family,
  addresses: readonly string[],
): { readonly rules: readonly NftRule[]; readonly chains: readonly Chain[] } {
  const statements = addresses.map((text): Statement => {
    const address = toAddress(text);
    if (address.family !== family) throw new RangeError(`${text} is no IPv${family} address`);
    return { kind: 'snat', family, to: address.value };
  });
  const [only, ...more] = statements;
  if (only === undefined) return { rules: [], chains: [] };
  if (more.length === 0) return { rules: [plainRule(only)], chains: [] };
  const chains = statements.map((statement, i) =>
    plainChain(`${chain}-v${family}-${i}`, [plainRule(statement)]),
  );
  const verdicts = chains.map(({ name }): ChainVerdict => ({ kind: 'goto', chain: name }));
  return { rules: [plainRule({ kind: 'hashMap', family, fields: ['saddr'], verdicts })], chains };
}
