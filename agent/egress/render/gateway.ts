import type { EgressArrival, EgressTake, NodeEgress } from '../../../apis/egress/node-egress.ts';
import { BITS, FAMILIES, type Family, parseAddress } from '../../../lib/net/address.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { plainChain, plainRule } from '../../render/plain.ts';
import type { Chain, NftRule, Statement } from '../../render/ruleset.ts';
import {
  type ChainVerdict,
  type MapEntry,
  packAddressMac,
  toVerdictMap,
  type VerdictMap,
} from '../../render/verdict-map.ts';
import { destinationChain, type RenderedClass, type Target } from './classes.ts';
import { dropRule, NOT_SERVED } from './drops.ts';
import { takeChain } from './outcomes.ts';
import { echoes, NAME } from './tunnel-rules.ts';

const refuse = dropRule('unknown-pod', NOT_SERVED);
const arrivalsMap = (family: Family): string => `egress-arrivals-v${family}`;

export interface RenderedGateway {
  readonly chains: readonly Chain[];
  readonly maps: readonly VerdictMap[];
}

/**
 * What comes by the tunnel: (pod, MAC of its node) leads to a take, by its destination where it has
 * several. All else is dropped.
 */
export function arrivals({ arrivals: served, peers, tunnel }: NodeEgress): RenderedGateway {
  const byDestination = new Map<string, RenderedClass>();
  // Pods of one class share the list: its chain is named once.
  const verdicts = new Map<EgressArrival['takes'], ChainVerdict>();
  const entries: Record<Family, MapEntry[]> = { 4: [], 6: [] };
  for (const [text, arrival] of served) {
    const address = parseAddress(text);
    const peer = peers.get(arrival.node);
    // A node without an end of the tunnel can send nothing.
    if (address === null || peer === undefined || arrival.takes.length === 0) continue;
    const verdict = verdicts.get(arrival.takes) ?? {
      ...{ kind: 'goto', chain: takesChain(address.family, arrival, byDestination) },
    };
    verdicts.set(arrival.takes, verdict);
    entries[address.family].push({ first: packAddressMac(address, peer.mac), verdict });
  }
  const maps = FAMILIES.map((family) =>
    toVerdictMap(
      { name: arrivalsMap(family), key: 'addressMac', family, interval: false, fixed: false },
      entries[family],
    ),
  );
  const rules = [
    // Questions of pods' nodes, and answers of gateways (agent/egress/health/).
    ...(tunnel === null ? [] : [plainRule({ kind: 'accept' }, ...echoes('ingress'))]),
    // Known connections have a mark and do not come here.
    dropRule('unknown-pod', NOT_SERVED, { match: 'ctConfirmed' }),
    ...FAMILIES.map((family) =>
      plainRule({ kind: 'addressMacMap', family, map: arrivalsMap(family) }, { match: 'ctNew' }),
    ),
    refuse,
  ];
  const several = [...byDestination.values()];
  return {
    chains: [plainChain(NAME.arrive, rules), ...several.map(({ chain }) => chain)],
    maps: [...maps, ...several.flatMap(({ maps: own }) => own)],
  };
}

function takesChain(family: Family, { takes }: EgressArrival, known: Map<string, RenderedClass>): string {
  const [first] = takes;
  const everything = (1n << BigInt(BITS[family])) - 1n;
  const isAll = first?.range.first === 0n && first.range.last === everything;
  if (first !== undefined && isAll) return takeChain(first.take);
  const targets = takes.map(({ range, take }): Target => ({ range, chain: takeChain(take) }));
  const content = targets.map(({ range, chain }) => [String(range.first), String(range.last), chain]);
  const name = `egress-arrival-${shortHash(10, family, content)}`;
  const none: Record<Family, Target[]> = { 4: [], 6: [] };
  if (!known.has(name)) known.set(name, destinationChain(name, { ...none, [family]: targets }, [refuse]));
  return name;
}

function translateChain(take: number): string {
  return `egress-translate-${take}`;
}

/** The entry of a take in the map of source NAT. */
export function translation(take: number): ChainVerdict {
  return { kind: 'goto', chain: translateChain(take) };
}

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
    const address = parseAddress(text);
    if (address?.family !== family) throw new RangeError(`${text} is no IPv${family} address`);
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
