import { FAMILIES } from '../../../lib/net/address.ts';
import { parsePoolRange } from '../../../lib/net/interval.ts';
import { present } from '../../../lib/sharing/present.ts';
import type { EgressGateway, EgressGatewaySpec, EgressProbe } from '../../egress/objects.ts';
import type { LabelSelector } from '../../label-selector.ts';
import { DEFAULT_FAILOVER, EGRESS_GATEWAY_SCHEMA } from '../../schema/egress-gateway.ts';
import { asFields, asList, type FieldMap } from '../../schema/json-schema.ts';
import { canonicalAddress, checkAddress, checkRange } from '../addresses.ts';
import { checkMetadata, toIdentity } from '../metadata.ts';
import { type FieldPath, type Findings, hasError, show } from '../problem.ts';
import { egressFieldHint, reportSchema } from '../schema-problem.ts';
import { checkSelector, selectsAll, toSelector } from '../selector.ts';
import { readGatewayStatus } from './status.ts';

/** The fields of a spec that passed the checks. */
interface RawSpec {
  readonly nodeSelector: LabelSelector;
  readonly addresses?: { readonly pools?: readonly { readonly ranges: readonly string[] }[] };
  readonly source?: EgressGatewaySpec['source'];
  readonly interface?: string;
  readonly choice?: EgressGatewaySpec['choice'];
  readonly announce?: EgressGatewaySpec['announce'];
  readonly probes?: readonly RawProbe[];
  readonly failover?: Partial<EgressGatewaySpec['failover']>;
  readonly allowedNamespaces?: LabelSelector;
  readonly default?: boolean;
}

interface RawProbe {
  readonly icmp?: { readonly address: string };
  readonly tcp?: { readonly address: string; readonly port: number };
  readonly seconds?: number;
  readonly failures?: number;
}

const DEFAULT_PROBE = { seconds: 5, failures: 3 } as const;

/** Null if the gateway has an error. */
export function validateEgressGateway(raw: FieldMap, found: Findings): EgressGateway | null {
  checkMetadata(raw, found);
  const { status: written, ...object } = raw;
  reportSchema(EGRESS_GATEWAY_SCHEMA, object, found, egressFieldHint);
  const spec = asFields(raw.spec);
  if (spec !== null) checkSpec(spec, found);
  const status = readGatewayStatus(written, found);
  if (hasError(found.problems)) return null;
  // The checks above guarantee the type.
  return {
    kind: 'EgressGateway',
    apiGroup: 'nodewall.io',
    ...toIdentity(raw),
    spec: toSpec(raw.spec as unknown as RawSpec),
    status,
  };
}

function checkSpec(spec: FieldMap, found: Findings): void {
  const { nodeSelector, allowedNamespaces } = spec;
  checkSelector(nodeSelector, ['spec', 'nodeSelector'], found);
  if (selectsAll(nodeSelector)) {
    const message =
      'is empty and would select every Node; name the labels of the nodes that are to be gateways';
    found.error(['spec', 'nodeSelector'], message);
  }
  checkSelector(allowedNamespaces, ['spec', 'allowedNamespaces'], found);
  const pools = asList(asFields(spec.addresses)?.pools);
  checkPools(pools, found);
  checkSource(spec, pools.length > 0, found);
  for (const [index, probe] of asList(spec.probes).entries()) {
    checkProbe(asFields(probe) ?? {}, ['spec', 'probes', index], found);
  }
  checkFailover(asFields(spec.failover) ?? {}, found);
}

function checkPools(pools: readonly unknown[], found: Findings): void {
  for (const [at, pool] of pools.entries()) {
    const { ranges } = asFields(pool) ?? {};
    const path = ['spec', 'addresses', 'pools', at, 'ranges'];
    if (Array.isArray(ranges) && ranges.length === 0) {
      found.error(path, 'is empty; a pool needs at least one range of addresses');
    }
    for (const [index, range] of asList(ranges).entries()) {
      if (typeof range === 'string') checkRange(range, [...path, index], found);
    }
  }
  warnOfOverlaps(pools, found);
}

/** An address that is in two ranges is one address. */
function warnOfOverlaps(pools: readonly unknown[], found: Findings): void {
  const ranges = pools.flatMap((pool, at) =>
    asList(asFields(pool)?.ranges).flatMap((text, index) => {
      const parsed = typeof text === 'string' ? parsePoolRange(text) : null;
      return parsed === null
        ? []
        : [{ ...parsed, path: ['spec', 'addresses', 'pools', at, 'ranges', index] }];
    }),
  );
  for (const family of FAMILIES) {
    let furthest: (typeof ranges)[number] | undefined;
    const own = ranges.filter((range) => range.family === family);
    for (const range of own.sort((a, b) => (a.addresses.first < b.addresses.first ? -1 : 1))) {
      if (furthest !== undefined && range.addresses.first <= furthest.addresses.last) {
        found.warning(range.path, `${range.text} overlaps ${furthest.text}; addresses in both count once`);
      }
      if (furthest === undefined || range.addresses.last > furthest.addresses.last) furthest = range;
    }
  }
}

/**
 * A field that fits neither the nodes' own addresses nor those of pools is an error, or without
 * effect.
 */
function checkSource(spec: FieldMap, hasPools: boolean, found: Findings): void {
  const { source, choice } = spec;
  if (source === 'Node' && hasPools) {
    const message =
      "Node uses the nodes' own addresses, and those of spec.addresses never; remove one of the two";
    found.error(['spec', 'source'], message);
  }
  if (source === 'Floating' && !hasPools) {
    found.error(['spec', 'source'], 'Floating needs addresses; give spec.addresses.pools, or source: Node');
  }
  const isNode = source === 'Node' || (source === undefined && !hasPools);
  if (!isNode && choice === 'Spread') {
    const message =
      'Spread needs source: Node, because an address of a pool is on one node at a time; use Failover';
    found.error(['spec', 'choice'], message);
  }
  if (!isNode && spec.interface !== undefined) {
    found.error(['spec', 'interface'], 'is only allowed with source: Node');
  } else if (typeof spec.interface === 'string' && !/^[^\s/:]{1,15}$/.test(spec.interface)) {
    const message = `${show(spec.interface)} is not a name of an interface: 1 to 15 characters without space, "/" and ":"`;
    found.error(['spec', 'interface'], message);
  }
  for (const field of ['announce', 'failover']) {
    if (isNode && spec[field] !== undefined) {
      found.warning(['spec', field], 'has no effect with source: Node: no address moves between nodes');
    }
  }
}

function checkProbe(probe: FieldMap, path: FieldPath, found: Findings): void {
  const kinds = ['icmp', 'tcp'].filter((kind) => kind in probe);
  if (kinds.length === 0) found.error(path, 'needs icmp or tcp');
  if (kinds.length === 2) found.error(path, 'has icmp and tcp; write one probe for each');
  for (const kind of kinds) {
    const { address } = asFields(probe[kind]) ?? {};
    if (typeof address === 'string') checkAddress(address, [4, 6], [...path, kind, 'address'], found);
  }
}

/** A lease that one lost heartbeat ends would move addresses all the time. */
function checkFailover(failover: FieldMap, found: Findings): void {
  const {
    heartbeatMilliseconds: heartbeat = DEFAULT_FAILOVER.heartbeatMilliseconds,
    leaseSeconds: lease = DEFAULT_FAILOVER.leaseSeconds,
  } = failover;
  if (typeof heartbeat !== 'number' || typeof lease !== 'number' || lease * 1000 >= 2 * heartbeat) return;
  const field = 'leaseSeconds' in failover ? 'leaseSeconds' : 'heartbeatMilliseconds';
  const message = `a lease of ${lease} s is shorter than two heartbeats of ${heartbeat} ms; one lost heartbeat would move the addresses`;
  found.error(['spec', 'failover', field], message);
}

function toSpec(spec: RawSpec): EgressGatewaySpec {
  const ranges = (spec.addresses?.pools ?? []).flatMap((pool) =>
    pool.ranges.map((text) => parsePoolRange(text)?.text ?? text),
  );
  return {
    nodeSelector: toSelector(spec.nodeSelector),
    ranges,
    source: spec.source ?? (ranges.length === 0 ? 'Node' : 'Floating'),
    ...present({ interface: spec.interface }),
    choice: spec.choice ?? 'Failover',
    announce: spec.announce ?? 'L2',
    probes: (spec.probes ?? []).map(toProbe),
    failover: { ...DEFAULT_FAILOVER, ...spec.failover },
    allowedNamespaces: spec.allowedNamespaces === undefined ? null : toSelector(spec.allowedNamespaces),
    default: spec.default ?? false,
  };
}

function toProbe({ icmp, tcp, ...times }: RawProbe): EgressProbe {
  return {
    address: canonicalAddress(tcp?.address ?? icmp?.address ?? ''),
    ...(tcp === undefined ? {} : { port: tcp.port }),
    ...DEFAULT_PROBE,
    ...times,
  };
}
