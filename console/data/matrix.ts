/** Node × policy: questions to an Overview, whose lists are short where all is as wanted. */
import {
  type CellState,
  cellState,
  isInRanges,
  type NodeRanges,
  type Overview,
  type OverviewNode,
  type OverviewPolicy,
  type PolicyException,
} from '../../apis/console.ts';

/** A node's cells of all policies. */
export interface NodeRow {
  /** Index in Overview.nodes. */
  readonly index: number;
  /** How many policies apply to it, and how many of them are in force. */
  readonly desired: number;
  readonly inForce: number;
  readonly exceptions: readonly PolicyAtNode[];
}

interface PolicyAtNode {
  readonly policy: OverviewPolicy;
  readonly exception: PolicyException;
}

/** Whether a node's phase stands for all its cells: see cellState(). */
function isAway({ phase }: OverviewNode): boolean {
  return phase !== 'Enforced' && phase !== 'Pending' && phase !== 'Failing';
}

/**
 * A row for each node, in their order. Cost: ranges of nodes, and exceptions; not nodes × policies.
 */
export function nodeRows({ nodes, policies }: Overview): NodeRow[] {
  const begins = new Int32Array(nodes.length + 1);
  const exceptions = nodes.map((): PolicyAtNode[] => []);
  for (const policy of policies) {
    for (const [first, last] of policy.nodes) {
      begins[first] = (begins[first] ?? 0) + 1;
      begins[last + 1] = (begins[last + 1] ?? 0) - 1;
    }
    for (const exception of policy.exceptions)
      for (const node of indexesOf(exception.nodes)) exceptions[node]?.push({ policy, exception });
  }
  let desired = 0;
  return nodes.map((node, index) => {
    desired += begins[index] ?? 0;
    const found = exceptions[index] ?? [];
    return { index, desired, inForce: isAway(node) ? 0 : desired - found.length, exceptions: found };
  });
}

/** A policy's number of nodes by state. */
export type StateCounts = ReadonlyMap<CellState, number>;

/** The counts of every policy, in their order. */
export function stateCounts(overview: Overview): StateCounts[] {
  const { nodes, policies } = overview;
  const away = nodes.flatMap((node, index) => (isAway(node) ? [index] : []));
  return policies.map((policy) => {
    const counts = new Map<CellState, number>();
    const add = (state: CellState, count: number): void => {
      if (count > 0) counts.set(state, (counts.get(state) ?? 0) + count);
    };
    let others = 0;
    for (const index of away) {
      if (!isInRanges(policy.nodes, index)) continue;
      add(cellState(overview, policy, index), 1);
      others++;
    }
    for (const { nodes: ranges, state } of policy.exceptions) {
      const count = sizeOf(ranges) - away.filter((index) => isInRanges(ranges, index)).length;
      add(state, count);
      others += count;
    }
    add('InForce', sizeOf(policy.nodes) - others);
    return counts;
  });
}

/** The exception that a node belongs to; null: it is none. */
export function exceptionAt({ exceptions }: OverviewPolicy, node: number): PolicyException | null {
  return exceptions.find(({ nodes }) => isInRanges(nodes, node)) ?? null;
}

/** Whether somebody may want to look at a policy: its newest version is not simply in force. */
export function isUnusual({ phase, exceptions, generation, enforcedGeneration }: OverviewPolicy): boolean {
  const isOlder = enforcedGeneration !== null && enforcedGeneration < generation;
  return exceptions.length > 0 || isOlder || !['Realized', 'NoNodes', 'Disabled'].includes(phase);
}

export function sizeOf(ranges: NodeRanges): number {
  return ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
}

export function* indexesOf(ranges: NodeRanges): Generator<number, void, undefined> {
  for (const [first, last] of ranges) for (let index = first; index <= last; index++) yield index;
}
