import type {
  DestinationRange,
  EgressOutcome,
  EgressPolicyName,
  NodeEgress,
} from '../../../apis/egress/node-egress.ts';
import { type Address, formatAddress } from '../../../lib/net/address.ts';

/** The policy that decides about new connections, and what it does. */
export interface PolicyOfConnection {
  readonly policy: EgressPolicyName;
  readonly action: EgressOutcome['action'];
  /** Whether it ends what began before it by another way. */
  readonly rechecks: boolean;
}

/**
 * The policy by which a node steers new connections of a local source to a destination outside of
 * the cluster. Null: none, or the source is not on this node.
 */
export function policyOfConnection(
  { sources, subnets, classes, outcomes }: NodeEgress,
  source: Address,
  destination: Address,
): PolicyOfConnection | null {
  const known = sources.get(formatAddress(source));
  if (known === null) return null;
  const id = known ?? subnets.find((subnet) => isWithin(source, subnet))?.class;
  const found = classes.get(id ?? '');
  if (found === undefined) return null;
  const ranges = destination.family === 4 ? found.ipv4 : found.ipv6;
  const outcome = outcomes.get(rangeOf(ranges, destination.value)?.outcome ?? '');
  if (outcome === undefined || outcome.policy === null) return null;
  const { policy, action, established } = outcome;
  return { policy, action, rechecks: established === 'Recheck' };
}

function isWithin({ family, value }: Address, subnet: NodeEgress['subnets'][number]): boolean {
  return family === subnet.family && subnet.range.first <= value && value <= subnet.range.last;
}

/** Ranges are disjoint and sorted. */
function rangeOf(ranges: readonly DestinationRange[], value: bigint): DestinationRange | undefined {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const range = ranges[middle]?.range;
    if (range === undefined || value < range.first) high = middle;
    else if (value > range.last) low = middle + 1;
    else return ranges[middle];
  }
  return undefined;
}
