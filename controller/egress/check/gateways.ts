import type { EgressGateway } from '../../../apis/egress/objects.ts';
import { parsePoolRange } from '../../../apis/egress/pool-range.ts';
import { gatewayPaths } from '../../../apis/validate/egress/paths.ts';
import { writtenKind } from '../../../apis/validate/identity.ts';
import type { CrossProblem } from '../../../apis/validate/objects.ts';
import type { Family } from '../../../lib/net/address.ts';
import type { Interval } from '../../../lib/net/interval.ts';
import { compare, type RangeIndex } from './ranges.ts';

/** One range of the pools of a gateway. */
export interface PoolOf {
  readonly gateway: EgressGateway;
  readonly family: Family;
  readonly range: Interval;
  readonly text: string;
}

export function poolsOf(gateways: readonly EgressGateway[]): PoolOf[] {
  return gateways.flatMap((gateway) =>
    gateway.spec.ranges.flatMap((text) => {
      const parsed = parsePoolRange(text);
      return parsed === null ? [] : [{ gateway, family: parsed.family, range: parsed.addresses, text }];
    }),
  );
}

/**
 * Pools that overlap those of another gateway, or addresses that something in the cluster has
 * (`others`); and defaults, if there are two.
 */
export function gatewayProblems(
  gateways: readonly EgressGateway[],
  pools: readonly PoolOf[],
  others: RangeIndex,
): CrossProblem<EgressGateway>[] {
  const overlaps = new Map<PoolOf, PoolOf>();
  for (const family of [4, 6])
    addOverlaps(
      pools.filter((pool) => pool.family === family),
      overlaps,
    );
  const ofPools = pools.flatMap((pool): CrossProblem<EgressGateway>[] => {
    const { gateway, family, range, text } = pool;
    const other = overlaps.get(pool);
    const foreign = others.overlapping(family, range);
    return [
      ...(other === undefined ? [] : [`${text} overlaps ${other.text} of ${nameOf(other.gateway)}`]),
      ...(foreign === undefined ? [] : [`${text} overlaps ${foreign.owner}`]),
    ].map((message) => {
      return { object: gateway, problem: { severity: 'error', path: gatewayPaths(gateway).ranges, message } };
    });
  });
  return [...defaultProblems(gateways), ...ofPools];
}

/** For each pool that overlaps one of another gateway, one such pool. */
function addOverlaps(pools: readonly PoolOf[], overlaps: Map<PoolOf, PoolOf>): void {
  // Of the pools so far: the one that reaches furthest, and the same of all other gateways.
  let furthest: PoolOf | undefined;
  let second: PoolOf | undefined;
  for (const pool of pools.toSorted((a, b) => compare(a.range.first, b.range.first))) {
    const other = furthest?.gateway === pool.gateway ? second : furthest;
    if (other !== undefined && other.range.last >= pool.range.first) {
      overlaps.set(pool, other);
      if (!overlaps.has(other)) overlaps.set(other, pool);
    }
    const isFurthest = furthest === undefined || pool.range.last > furthest.range.last;
    if (isFurthest) {
      if (furthest?.gateway !== pool.gateway) second = furthest;
      furthest = pool;
    } else if (furthest?.gateway !== pool.gateway && pool.range.last > (second?.range.last ?? -1n)) {
      second = pool;
    }
  }
}

function defaultProblems(gateways: readonly EgressGateway[]): CrossProblem<EgressGateway>[] {
  const defaults = gateways.filter(({ spec }) => spec.default);
  const [first, second] = defaults;
  if (first === undefined || second === undefined) return [];
  return defaults.map((gateway) => {
    const other = gateway === first ? second : first;
    const message = `${nameOf(other)} is the default too; at most one can be, so remove it from one of them`;
    return { object: gateway, problem: { severity: 'error', path: gatewayPaths(gateway).default, message } };
  });
}

/** As `EgressGateway out`, with the API group where it is not ours. */
export function nameOf(gateway: EgressGateway): string {
  const group = gateway.apiGroup === 'nodewall.io' ? '' : ` of ${gateway.apiGroup}`;
  return `${writtenKind(gateway)} ${gateway.name}${group}`;
}
