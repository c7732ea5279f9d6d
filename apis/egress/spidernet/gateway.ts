import { FAMILIES, type Family, parseAddress } from '../../../lib/net/address.ts';
import type { LabelSelector } from '../../objects.ts';
import { asFields, asList, type FieldMap } from '../../schema/json-schema.ts';
import { canonicalAddress, checkAddress, checkRange } from '../../validate/egress/addresses.ts';
import { DEFAULT_FAILOVER, selectsAll } from '../../validate/egress/gateway.ts';
import { type FieldPath, type Findings, show } from '../../validate/problem.ts';
import { checkSelector, toSelector } from '../../validate/selector.ts';
import type { AddressPair, EgressGatewaySpec } from '../objects.ts';
import { type PoolRange, parsePoolRange } from '../pool-range.ts';
import type { SpidernetVersion } from './kinds.ts';
import { presentItems } from './present.ts';

const LISTS = { 4: 'ipv4', 6: 'ipv6' } as const;
const DEFAULTS = { 4: 'ipv4DefaultEIP', 6: 'ipv6DefaultEIP' } as const;

/**
 * Converts the spec of an EgressGateway that passed the schema; the result counts without errors.
 */
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
    failover: DEFAULT_FAILOVER,
    allowedNamespaces: {},
    default: spec.clusterDefault === true,
    ...(version === 'v1' && spec.clusterDefault === undefined ? { defaultIfOnly: true } : {}),
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
  if (selectsAll(chosen)) {
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
    checkRange(text, at, found);
    const range = parsePoolRange(text);
    if (range !== null && range.family !== family) {
      found.error(at, `${show(text)} is IPv${range.family}; move it to ${LISTS[range.family]}`);
    }
    return range ?? [];
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
    checkAddress(text, [family], path, found);
    const address = parseAddress(text);
    if (address?.family === family && !pools[family].some((range) => isInRange(range, address.value))) {
      const message = `${text} is in no range of ${field}.${LISTS[family]}; add it there, or choose one of them`;
      found.error(path, message);
    }
    return [[LISTS[family], canonicalAddress(text)] as const];
  });
  return Object.fromEntries(pairs);
}

function isInRange({ addresses }: PoolRange, value: bigint): boolean {
  return addresses.first <= value && value <= addresses.last;
}
