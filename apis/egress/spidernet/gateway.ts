import { FAMILIES, type Family, parseAddress } from '../../../lib/net/address.ts';
import type { LabelSelector } from '../../objects.ts';
import { asFields, asList, type FieldMap } from '../../schema/json-schema.ts';
import { type FieldPath, type Findings, show } from '../../validate/problem.ts';
import { checkSelector, toSelector } from '../../validate/selector.ts';
import type { AddressPair, EgressGatewaySpec } from '../objects.ts';
import { type PoolRange, parsePoolRange } from '../pool-range.ts';
import { toAddress } from './address.ts';
import type { SpidernetVersion } from './kinds.ts';
import { presentItems } from './present.ts';

const LISTS = { 4: 'ipv4', 6: 'ipv6' } as const;
const DEFAULTS = { 4: 'ipv4DefaultEIP', 6: 'ipv6DefaultEIP' } as const;

/** Converts the spec of an EgressGateway that passed the schema; the result counts without errors. */
export function toGatewaySpec(spec: FieldMap, version: SpidernetVersion, found: Findings): EgressGatewaySpec {
  const nodeSelector = toNodeSelector(spec, found);
  const pools = toPools(spec, found);
  const ranges = FAMILIES.flatMap((family) => pools[family].map(({ text }) => text));
  const defaultAddress = toDefaultAddress(spec, pools, found);
  const isPaired = FAMILIES.every((family) => pools[family].length > 0);
  return {
    nodeSelector,
    ranges,
    ...(Object.keys(defaultAddress).length === 0 ? {} : { defaultAddress }),
    ...(isPaired ? { paired: true } : {}),
    source: ranges.length === 0 ? 'Node' : 'Floating',
    choice: 'Failover',
    announce: 'L2',
    probes: [],
    failover: { heartbeatMilliseconds: 500, leaseSeconds: 2, failback: false },
    allowedNamespaces: {},
    // Policies of v1 have no field for the gateway: they use the one that there is.
    default: version === 'v1' || spec.clusterDefault === true,
  };
}

function toNodeSelector(spec: FieldMap, found: Findings): LabelSelector {
  const path = ['spec', 'nodeSelector'];
  const { selector, policy, ...direct } = asFields(spec.nodeSelector) ?? {};
  if (policy !== undefined) {
    const message = `${show(policy)} is not read; nodewall spreads the addresses over the ready nodes by itself`;
    found.notice([...path, 'policy'], message);
  }
  const isDirect = Object.keys(direct).length > 0;
  if (selector !== undefined && isDirect) {
    found.error(path, 'has the labels of nodes twice; leave out selector, or matchLabels beside it');
  }
  const at = isDirect ? path : [...path, 'selector'];
  const chosen = toSelector((isDirect ? direct : (asFields(selector) ?? {})) as LabelSelector);
  checkSelector(chosen, at, found);
  const isEmpty = Object.keys(chosen.matchLabels ?? {}).length === 0 && chosen.matchExpressions === undefined;
  if (isEmpty) {
    const message =
      'selects every node; name the labels of the gateway nodes, as in matchLabels: {egress: "true"}';
    found.error(at, message);
  }
  return chosen;
}

type Pools = Readonly<Record<Family, readonly PoolRange[]>>;

/** `ippools`, or `ranges` as it was called in 2023. */
function poolsField(spec: FieldMap): 'ippools' | 'ranges' {
  return spec.ippools === undefined && spec.ranges !== undefined ? 'ranges' : 'ippools';
}

function toPools(spec: FieldMap, found: Findings): Pools {
  if (spec.ippools !== undefined && spec.ranges !== undefined) {
    found.error(['spec', 'ranges'], 'is the earlier name of ippools, which is given too; leave one out');
  }
  const field = poolsField(spec);
  const fields = asFields(spec[field]) ?? {};
  if (fields.policy !== undefined) {
    const message = 'is not read; the allocatorPolicy of each policy decides which address it gets';
    found.notice(['spec', field, 'policy'], message);
  }
  const listOf = (family: Family): readonly PoolRange[] =>
    toRanges(asList(fields[LISTS[family]]), family, ['spec', field, LISTS[family]], found);
  const pools = { 4: listOf(4), 6: listOf(6) };
  const [ipv4 = 0n, ipv6 = 0n] = FAMILIES.map((family) => count(pools[family]));
  if (ipv4 > 0n && ipv6 > 0n && ipv4 !== ipv6) {
    const message =
      `has ${ipv4} IPv4 and ${ipv6} IPv6 addresses, which pair by their position; ` +
      'those without a partner serve policies of one family';
    found.warning(['spec', field], message);
  }
  return pools;
}

function toRanges(
  list: readonly unknown[],
  family: Family,
  path: FieldPath,
  found: Findings,
): readonly PoolRange[] {
  return presentItems(list).flatMap(([index, text]) => {
    const at = [...path, index];
    const range = parsePoolRange(text);
    if (range === null) {
      const message = `${show(text)} is not an address, a range ADDRESS-ADDRESS from low to high, or a CIDR`;
      found.error(at, message);
    } else if (range.family !== family) {
      found.error(at, `${show(text)} is IPv${range.family}; move it to ${LISTS[range.family]}`);
    } else if (range.hostBits) {
      found.warning(at, `${text} has bits set after the prefix; it is read as ${range.text}`);
    }
    return range === null ? [] : [range];
  });
}

function count(ranges: readonly PoolRange[]): bigint {
  return ranges.reduce((sum, { addresses }) => sum + addresses.last - addresses.first + 1n, 0n);
}

function toDefaultAddress(spec: FieldMap, pools: Pools, found: Findings): AddressPair {
  const field = poolsField(spec);
  const fields = asFields(spec[field]) ?? {};
  const pairs = FAMILIES.flatMap((family) => {
    const text = fields[DEFAULTS[family]];
    if (typeof text !== 'string') return [];
    const path = ['spec', field, DEFAULTS[family]];
    const address = toAddress(text, family, path, found);
    if (address === null) return [];
    const value = parseAddress(address)?.value ?? 0n;
    const isInPool = pools[family].some(
      ({ addresses }) => addresses.first <= value && value <= addresses.last,
    );
    if (!isInPool) {
      found.error(
        path,
        `${address} is in no range of ${field}.${LISTS[family]}; add it there, or choose one of them`,
      );
    }
    return [[LISTS[family], address] as const];
  });
  return Object.fromEntries(pairs);
}
