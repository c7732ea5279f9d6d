import type { EgressGateway } from '../../../apis/egress/objects.ts';
import type { Node } from '../../../apis/objects.ts';
import { GATEWAY_PATHS } from '../../../apis/validate/egress/kinds.ts';
import type { CrossProblem } from '../../../apis/validate/problem.ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import { type Interval, parsePoolRange } from '../../../lib/net/interval.ts';
import type { Overlaps } from '../../../lib/net/range-index.ts';
import { compareBigInts } from '../../../lib/sharing/lists.ts';
import { allHold, canonicalRequirements } from '../../index/selector.ts';

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
 *
 * @param of whose problems are wanted; absent: those of all
 */
export function gatewayProblems(
  gateways: readonly EgressGateway[],
  pools: readonly PoolOf[],
  others: Overlaps,
  of: readonly EgressGateway[] = gateways,
): CrossProblem<EgressGateway>[] {
  const overlaps = new Map(
    FAMILIES.flatMap((family) => [...overlapsOf(pools.filter((pool) => pool.family === family))]),
  );
  const wanted = new Set(of);
  const ofPools = pools
    .filter(({ gateway }) => wanted.has(gateway))
    .flatMap((pool): CrossProblem<EgressGateway>[] => {
      const { gateway, family, range, text } = pool;
      const other = overlaps.get(pool);
      const foreign = others.overlapping(family, range);
      return [
        ...(other === undefined ? [] : [`${text} overlaps ${other.text} of ${nameOf(other.gateway)}`]),
        ...(foreign === undefined ? [] : [`${text} overlaps ${foreign.owner}`]),
      ].map((message) => {
        return {
          object: gateway,
          problem: { severity: 'error', path: GATEWAY_PATHS.ranges, message },
        };
      });
    });
  return [...defaultProblems(gateways).filter(({ object }) => wanted.has(object)), ...ofPools];
}

/** Gateways that select no Node. Where no Nodes are known, nothing is said. */
export function nodelessProblems(
  gateways: readonly EgressGateway[],
  nodes: readonly Node[],
): CrossProblem<EgressGateway>[] {
  if (nodes.length === 0) return [];
  return gateways.flatMap((gateway): CrossProblem<EgressGateway>[] => {
    const wanted = canonicalRequirements(gateway.spec.nodeSelector);
    if (nodes.some(({ labels }) => allHold(wanted, labels))) return [];
    const message = 'selects no Node; until one has such labels, what policies send to it is dropped';
    const path = GATEWAY_PATHS.nodeSelector;
    return [{ object: gateway, problem: { severity: 'warning', path, message } }];
  });
}

/** For each pool that overlaps one of another gateway, one such pool. */
function overlapsOf(pools: readonly PoolOf[]): ReadonlyMap<PoolOf, PoolOf> {
  const sorted = pools.toSorted((a, b) => compareBigInts(a.range.first, b.range.first));
  const after = nextOfOthers(sorted);
  const overlaps = new Map<PoolOf, PoolOf>();
  // The furthest of the pools before this one, and the furthest of all other gateways.
  let furthest: PoolOf | undefined;
  let second: PoolOf | undefined;
  for (const [index, pool] of sorted.entries()) {
    const before = furthest?.gateway === pool.gateway ? second : furthest;
    const next = after[index];
    if (before !== undefined && before.range.last >= pool.range.first) overlaps.set(pool, before);
    else if (next !== undefined && next.range.first <= pool.range.last) overlaps.set(pool, next);
    if (furthest === undefined || pool.range.last > furthest.range.last) {
      if (furthest?.gateway !== pool.gateway) second = furthest;
      furthest = pool;
    } else if (furthest.gateway !== pool.gateway && pool.range.last > (second?.range.last ?? -1n)) {
      second = pool;
    }
  }
  return overlaps;
}

/** For each pool the next one of another gateway. */
function nextOfOthers(sorted: readonly PoolOf[]): readonly (PoolOf | undefined)[] {
  const after: (PoolOf | undefined)[] = [];
  for (let index = sorted.length - 1; index >= 0; index--) {
    const next = sorted[index + 1];
    after[index] = next?.gateway === sorted[index]?.gateway ? after[index + 1] : next;
  }
  return after;
}

function defaultProblems(gateways: readonly EgressGateway[]): CrossProblem<EgressGateway>[] {
  const defaults = gateways.filter(({ spec }) => spec.default);
  const [first, second] = defaults;
  if (first === undefined || second === undefined) return [];
  return defaults.map((gateway) => {
    const other = gateway === first ? second : first;
    const message = `${nameOf(other)} is the default too; at most one can be, so remove it from one of them`;
    return { object: gateway, problem: { severity: 'error', path: GATEWAY_PATHS.default, message } };
  });
}

/** As `EgressGateway out`. */
export function nameOf({ kind, name }: EgressGateway): string {
  return `${kind} ${name}`;
}
