import { FAMILIES, type Family, parseAddress } from '../../lib/net/address.ts';
import { hasFamily, isInPool } from '../../lib/net/address-pool.ts';
import { addressRangeText, type Interval, subtract, union } from '../../lib/net/interval.ts';
import { present } from '../../lib/sharing/present.ts';
import { type Pair, type TheirGateway, withPartner } from './spidernet-gateway.ts';
import type { TheirPolicy } from './spidernet-policy.ts';
import { type Translated, toManifest } from './translation.ts';

/** The gateway and the address of a translated policy. */
export interface PlacedPolicy {
  /** A further gateway, made of that of the policy; undefined: that of the policy. */
  readonly gateway?: string;
  /** The field `address`; undefined: the shared address, or the node's. */
  readonly address?: object;
  /** Families of which it has an address; null: those that the gateway's node has. */
  readonly families: readonly Family[] | null;
}

interface Group {
  readonly pair: Pair;
  readonly policies: readonly TheirPolicy[];
}

/**
 * Translates a gateway, and decides the addresses of its policies so that each keeps the one that
 * it has: alone with it, a policy is Fixed. In nodewall only Shared policies have one address
 * together, and those of one gateway all the same; so one group of policies is Shared, its address
 * is the first of the pool, and each further group gets a gateway of its own. So do policies with
 * the node's address.
 *
 * @param freeName a name that no gateway has, similar to this one
 */
export function placePolicies(
  gateway: TheirGateway,
  policies: readonly TheirPolicy[],
  freeName: (name: string) => string,
): { readonly gateways: readonly Translated[]; readonly placed: ReadonlyMap<TheirPolicy, PlacedPolicy> } {
  const placed = new Map<TheirPolicy, PlacedPolicy>();
  const manifest = (name: string, ranges: readonly string[], more: object = {}): Translated => {
    const addresses = ranges.length === 0 ? {} : { addresses: { pools: [{ ranges }] } };
    const { nodeSelector } = gateway;
    const spec = { nodeSelector, ...addresses, allowedNamespaces: {}, ...more };
    return { manifest: toManifest('EgressGateway', name, '', spec), from: gateway.given };
  };
  const more: Translated[] = [];
  const groups = groupsOf(gateway, policies);
  const shared = sharedGroup(gateway, groups, policies);
  for (const group of groups) {
    const [first] = group.policies;
    if (group === shared) continue;
    if (group.policies.length === 1 && first !== undefined) {
      placed.set(first, { address: fixedAddress(group.pair), families: familiesOf(group.pair) });
      continue;
    }
    const name = freeName(gateway.name);
    more.push(manifest(name, Object.values(group.pair)));
    for (const policy of group.policies) {
      placed.set(policy, { gateway: name, families: familiesOf(group.pair) });
      const message = `is shared with other policies, but is not the address of all Shared ones: EgressGateway ${name} is made for it`;
      policy.given.found.notice(policy.addressPath, message);
    }
  }
  const ofNode = policies.filter(({ allocation }) => allocation === 'Node');
  if (gateway.ranges.length > 0 && ofNode.length > 0) {
    const name = freeName(`${gateway.name}-node`);
    more.push(manifest(name, []));
    for (const policy of ofNode) {
      placed.set(policy, { gateway: name, families: null });
      const message = `EgressGateway ${gateway.name} has pools: EgressGateway ${name} is made for the addresses of its nodes`;
      policy.given.found.notice(policy.addressPath, message);
    }
  }
  const families =
    gateway.ranges.length === 0 ? null : FAMILIES.filter((one) => hasFamily(gateway.pool, one));
  for (const policy of policies) {
    if (placed.has(policy)) continue;
    const isAlone =
      policy.allocation === 'Dedicated' && families !== null && !shared?.policies.includes(policy);
    placed.set(policy, { ...(isAlone ? { address: { allocation: 'Dedicated' } } : {}), families });
    if (isAlone && gateway.isPaired) {
      const message = 'no address is known yet: it gets a free one of each family, which need not be a pair';
      policy.given.found.notice(policy.addressPath, message);
    }
  }
  const pairs = more.flatMap(({ manifest: { metadata } }) =>
    groups.flatMap(({ pair, policies: [first] }) =>
      first !== undefined && placed.get(first)?.gateway === metadata.name ? [pair] : [],
    ),
  );
  // Without a Shared policy the default address is last, so that no Dedicated one gets it.
  const isUsed = [...placed].some(
    ([{ to }, { gateway: own, address, families: has }]) =>
      (own ?? address) === undefined &&
      (has === null || to.length === 0 || to.some(({ family }) => has.includes(family))),
  );
  const ranges = rangesWithout(gateway, pairs, shared?.pair ?? {}, isUsed ? 'first' : 'last');
  const isDefault = gateway.isDefault === true ? { default: true } : {};
  return { gateways: [manifest(gateway.name, ranges, isDefault), ...more], placed };
}

/** Policies with one address, as they have it now or will have it. */
function groupsOf(gateway: TheirGateway, policies: readonly TheirPolicy[]): readonly Group[] {
  const pairs = policies.map((policy) => ({ policy, pair: pairOf(policy, gateway) }));
  const groups = Map.groupBy(pairs, ({ pair }) => pair[4] ?? pair[6] ?? '');
  groups.delete('');
  const taken = new Set<string>();
  return [...groups.values()].map((members) => {
    const pair: Partial<Record<Family, string>> = { ...members[0]?.pair };
    const own = pair[4] === undefined ? undefined : pair[6];
    if (own !== undefined && taken.has(own)) delete pair[6];
    for (const address of Object.values(pair)) taken.add(address);
    for (const { policy, pair: before } of members) {
      if (before[6] === undefined || before[6] === pair[6]) continue;
      const now = pair[6] === undefined ? 'it has none now' : `it has ${pair[6]} now`;
      const message = `its IPv6 address ${before[6]} belongs to other policies too, which have another IPv4 address; ${now}`;
      policy.given.found.warning(policy.addressPath, message);
    }
    return { pair, policies: members.map(({ policy }) => policy) };
  });
}

/** The addresses that a policy names, else has, else would have; empty: nobody knows them. */
function pairOf({ allocation, fixed, used, namespace, name }: TheirPolicy, gateway: TheirGateway): Pair {
  if (allocation === 'Node') return {};
  const status = Object.keys(used).length > 0 ? used : (gateway.used.get(`${namespace}/${name}`) ?? {});
  if (allocation === 'Fixed') {
    const isInForce = FAMILIES.some(
      (family) => fixed[family] !== undefined && fixed[family] === status[family],
    );
    return withPartner(isInForce ? { ...status, ...fixed } : fixed, gateway);
  }
  const kept = FAMILIES.flatMap((family) => {
    const text = status[family];
    return text !== undefined && isInPool(gateway.pool, text) ? [[family, text] as const] : [];
  });
  const named = allocation === 'Shared' ? gateway.defaults : {};
  return withPartner(kept.length > 0 ? Object.fromEntries(kept) : named, gateway);
}

/**
 * The group whose address is that of all Shared policies: that of the default address, else the
 * largest one with several policies, or with Shared ones where another of these has no address
 * yet. Undefined: there is none.
 */
function sharedGroup(
  gateway: TheirGateway,
  groups: readonly Group[],
  policies: readonly TheirPolicy[],
): Group | undefined {
  const pair = withPartner(gateway.defaults, gateway);
  const key = pair[4] ?? pair[6];
  if (key !== undefined) {
    const group = groups.find((one) => (one.pair[4] ?? one.pair[6]) === key);
    const isFixed = group?.policies.length === 1 && group.policies[0]?.allocation !== 'Shared';
    return group === undefined || isFixed ? { pair, policies: [] } : group;
  }
  const shared = (some: readonly TheirPolicy[]): number =>
    some.filter(({ allocation }) => allocation === 'Shared').length;
  const isOneNew = shared(policies) > groups.reduce((sum, group) => sum + shared(group.policies), 0);
  const weight = (group: Group): number => group.policies.length + shared(group.policies);
  return groups
    .filter((group) => group.policies.length > 1 || (isOneNew && shared(group.policies) > 0))
    .sort((a, b) => weight(b) - weight(a))[0];
}

function familiesOf(pair: Pair): readonly Family[] {
  return FAMILIES.filter((family) => pair[family] !== undefined);
}

function fixedAddress(pair: Pair): object {
  const { 4: ipv4, 6: ipv6 } = pair;
  return {
    allocation: 'Fixed',
    ...present({ ipv4, ipv6 }),
  };
}

/** The gateway's ranges without the addresses of others; those of one pair in front, or behind. */
function rangesWithout(
  { ranges }: TheirGateway,
  others: readonly Pair[],
  pair: Pair,
  place: 'first' | 'last',
): readonly string[] {
  return FAMILIES.flatMap((family) => {
    const own = ranges.filter((range) => range.family === family);
    const address = pair[family];
    const [value, begin] = [
      address === undefined ? null : parseAddress(address)?.value,
      own[0]?.addresses.first,
    ];
    const isThere = address === undefined || (place === 'first' && value === begin);
    const holes = union([...others, ...(isThere ? [] : [pair])].flatMap((one) => single(one[family])));
    const rest = own.flatMap(({ addresses, text }) => {
      const left = subtract([addresses], holes);
      const isWhole =
        left.length === 1 && left[0]?.first === addresses.first && left[0].last === addresses.last;
      return isWhole ? [text] : left.map((part) => textOf(family, part));
    });
    if (isThere) return rest;
    return place === 'first' ? [address, ...rest] : [...rest, address];
  });
}

function single(text: string | undefined): Interval[] {
  const address = text === undefined ? null : parseAddress(text);
  return address === null ? [] : [{ first: address.value, last: address.value }];
}

function textOf(family: Family, interval: Interval): string {
  const text = addressRangeText(family, interval);
  return interval.first === interval.last ? text.slice(0, text.indexOf('-')) : text;
}
