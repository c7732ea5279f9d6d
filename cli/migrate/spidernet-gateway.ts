import type { LabelSelector } from '../../apis/objects.ts';
import { asFields, asList, type FieldMap } from '../../apis/schema/json-schema.ts';
import { canonicalAddress, checkAddress, checkRange } from '../../apis/validate/addresses.ts';
import { show } from '../../apis/validate/problem.ts';
import { checkSelector, selectsAll, toSelector } from '../../apis/validate/selector.ts';
import { FAMILIES, type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';
import {
  hasFamily,
  isInPool,
  type Pool,
  placeInPool,
  poolAddress,
  toPool,
} from '../../lib/net/address-pool.ts';
import { type PoolRange, parsePoolRange } from '../../lib/net/interval.ts';
import { presentItems } from './spidernet-schema.ts';
import type { FieldPlace, Given } from './translation.ts';

/** An address of each family, in canonical form. */
export type Pair = Readonly<Partial<Record<Family, string>>>;

/** An EgressGateway of egressgateway. */
export interface TheirGateway {
  readonly kind: 'EgressGateway';
  readonly given: Given;
  readonly name: string;
  readonly nodeSelector: LabelSelector;
  readonly ranges: readonly PoolRange[];
  readonly pool: Pool;
  /** Whether addresses at the same place of both lists are one pair. */
  readonly isPaired: boolean;
  /** The addresses of policies that ask for none; empty: none is named. */
  readonly defaults: Pair;
  /** Undefined: it does not say. */
  readonly isDefault: boolean | undefined;
  /** The addresses of policies (`NAMESPACE/NAME`), by the status. */
  readonly used: ReadonlyMap<string, Pair>;
}

export const FAMILY_FIELDS = { 4: 'ipv4', 6: 'ipv6' } as const;
const DEFAULTS = { 4: 'ipv4DefaultEIP', 6: 'ipv6DefaultEIP' } as const;

/** Reads a gateway that passed the schema; the result counts without errors. */
export function readGateway(given: Given, spec: FieldMap): TheirGateway {
  const { found } = given;
  const nodeSelector = readNodeSelector(given, spec);
  const field = spec.ippools === undefined && spec.ranges !== undefined ? 'ranges' : 'ippools';
  if (spec.ippools !== undefined && spec.ranges !== undefined)
    found.error(['spec', 'ranges'], 'is the earlier name of ippools, which is given too; leave one out');
  const pools = asFields(spec[field]) ?? {};
  if (pools.policy !== undefined) {
    const message = 'has no equal: the allocation of each policy decides which address it gets';
    found.notice(['spec', field, 'policy'], message);
  }
  const ranges = FAMILIES.flatMap((family) =>
    readRanges(asList(pools[FAMILY_FIELDS[family]]), family, {
      found,
      path: ['spec', field, FAMILY_FIELDS[family]],
    }),
  );
  const pool = toPool(ranges.map(({ text }) => text));
  warnOfUnpaired(ranges, { found, path: ['spec', field] });
  return {
    kind: 'EgressGateway',
    given,
    name: String(asFields(given.raw.metadata)?.name),
    nodeSelector,
    ranges,
    pool,
    isPaired: FAMILIES.every((family) => hasFamily(pool, family)),
    defaults: readDefaults(pools, pool, { found, path: ['spec', field] }),
    isDefault: typeof spec.clusterDefault === 'boolean' ? spec.clusterDefault : undefined,
    used: readUsed(given),
  };
}

function readNodeSelector({ found }: Given, spec: FieldMap): LabelSelector {
  const path = ['spec', 'nodeSelector'];
  const { selector, policy, ...direct } = asFields(spec.nodeSelector) ?? {};
  if (policy !== undefined) {
    const message = `${show(policy)} has no equal; nodewall spreads the addresses over the ready nodes by itself`;
    found.notice([...path, 'policy'], message);
  }
  const isDirect = Object.keys(direct).length > 0;
  if (selector !== undefined && isDirect)
    found.error(path, 'has the labels of nodes twice; leave out selector, or matchLabels beside it');
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

function readRanges(
  list: readonly unknown[],
  family: Family,
  { found, path }: FieldPlace,
): readonly PoolRange[] {
  return presentItems(list).flatMap(([index, text]) => {
    const at = [...path, index];
    checkRange(text, at, found);
    const range = parsePoolRange(text);
    if (range !== null && range.family !== family)
      found.error(at, `${show(text)} is IPv${range.family}; move it to ${FAMILY_FIELDS[range.family]}`);
    return range ?? [];
  });
}

function warnOfUnpaired(ranges: readonly PoolRange[], { found, path }: FieldPlace): void {
  const [ipv4 = 0n, ipv6 = 0n] = FAMILIES.map((family) =>
    ranges
      .filter((range) => range.family === family)
      .reduce((sum, { addresses }) => sum + addresses.last - addresses.first + 1n, 0n),
  );
  if (ipv4 === 0n || ipv6 === 0n || ipv4 === ipv6) return;
  const message =
    `has ${ipv4} IPv4 and ${ipv6} IPv6 addresses, which pair by their position; ` +
    'those without a partner serve policies of one family';
  found.warning(path, message);
}

function readDefaults(pools: FieldMap, pool: Pool, { found, path }: FieldPlace): Pair {
  const pairs = FAMILIES.flatMap((family) => {
    const text = pools[DEFAULTS[family]];
    if (typeof text !== 'string') return [];
    const at = [...path, DEFAULTS[family]];
    checkAddress(text, [family], at, found);
    if (parseAddress(text)?.family === family && !isInPool(pool, text)) {
      const list = `${path.at(-1)}.${FAMILY_FIELDS[family]}`;
      found.error(at, `${text} is in no range of ${list}; add it there, or choose one of them`);
    }
    return [[family, canonicalAddress(text)] as const];
  });
  return Object.fromEntries(pairs);
}

/**
 * Reads from the status which addresses are in use. Entries that can't be read are left out: a
 * status is not for its user to correct.
 */
function readUsed({ raw, found }: Given): ReadonlyMap<string, Pair> {
  const nodes = asList(asFields(raw.status)?.nodeList).flatMap((item): FieldMap[] => {
    const fields = asFields(item);
    return fields === null ? [] : [fields];
  });
  if (nodes.length > 0) {
    const message =
      'the owners of the addresses have no equal: each address may move once, to the node that nodewall chooses, which ends its connections';
    found.notice(['status', 'nodeList'], message);
  }
  const used = new Map<string, Pair>();
  // Some versions call the list `epis`.
  for (const entry of nodes.flatMap(({ eips, epis }) => asList(eips ?? epis))) {
    const pair = readPair(entry);
    if (Object.keys(pair).length === 0) continue;
    for (const item of asList(asFields(entry)?.policies)) {
      // Those of 2023 have no namespace, and name no policy for certain.
      const { name, namespace = '' } = asFields(item) ?? {};
      if (typeof name === 'string') used.set(`${namespace}/${name}`, pair);
    }
  }
  return used;
}

/** The addresses in `{ipv4, ipv6}`. */
export function readPair(raw: unknown): Pair {
  const fields = asFields(raw) ?? {};
  const pairs = FAMILIES.flatMap((family) => {
    const text = fields[FAMILY_FIELDS[family]];
    const address = typeof text === 'string' ? parseAddress(text) : null;
    return address?.family === family ? [[family, formatAddress(address)] as const] : [];
  });
  return Object.fromEntries(pairs);
}

/** The pair with the partner of its only address: the one at the same place of the other list. */
export function withPartner(pair: Pair, { pool, isPaired }: TheirGateway): Pair {
  const [known, missing] = pair[4] === undefined ? ([6, 4] as const) : ([4, 6] as const);
  const address = pair[known];
  if (!isPaired || address === undefined || pair[missing] !== undefined) return pair;
  const place = placeInPool(pool, address);
  const partner = place < 0n ? null : poolAddress(pool, missing, place);
  return partner === null ? pair : { ...pair, [missing]: partner };
}
