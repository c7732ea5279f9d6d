import type { Compiled, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Row } from '../../apis/difference/row.ts';
import { type NumberedRow, withPeers } from '../../apis/difference/rows.ts';
import { commonFamilies, StateDifference } from '../../apis/difference/state-difference.ts';
import { type Address, type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import { nodeView } from '../publish/node-view.ts';

/** Nodes with the same rows. */
export interface NodeGroup {
  /** Sorted. */
  readonly nodes: readonly string[];
  readonly changes: readonly Row[];
}

export interface ClusterDifference {
  /** Sorted by the first node. */
  readonly groups: readonly NodeGroup[];
  /** Sorted. */
  readonly nodesAdded: readonly string[];
  readonly nodesRemoved: readonly string[];
}

export interface ClusterDifferenceOptions {
  readonly config: Config;
  /** Compares this node alone; absent: all. */
  readonly node?: string;
  /** Adds the addresses of names to a state of the old and of the new cluster. */
  readonly resolve?: Readonly<Record<'before' | 'after', (state: NodeState) => NodeState>>;
}

/**
 * The flows whose verdict differs between two compiled states of a cluster, at each Node that both
 * have. Nodes with the same rules are compared once. Throws if a rule names a link group that is
 * not in the configuration.
 */
export function clusterDifference(
  before: Compiled,
  after: Compiled,
  { config, node, resolve }: ClusterDifferenceOptions,
): ClusterDifference {
  const names = [...before.nodeAddresses.keys()];
  const common = names.filter((name) => after.nodeAddresses.has(name));
  const compared = node === undefined ? common : common.filter((name) => name === node);
  const classes = nodeClasses(compared, [before, after]);
  const difference = new StateDifference(config);
  const same = (state: NodeState): NodeState => state;
  const { before: resolveBefore, after: resolveAfter } = resolve ?? { before: same, after: same };
  const registered = classes.map((nodes) => {
    const [first = ''] = nodes;
    return {
      nodes,
      pair: difference.register(resolveBefore(nodeView(before, first)), resolveAfter(nodeView(after, first))),
    };
  });
  const groups = new Map<string, { readonly nodes: string[]; readonly changes: readonly Row[] }>();
  for (const { nodes, pair } of registered) {
    const rows = difference.rows(pair);
    for (const [own, members] of withOwnRows(rows, nodes, {
      states: [before, after],
      families: commonFamilies(pair),
    })) {
      const key = JSON.stringify(own);
      const known = groups.get(key);
      if (known === undefined) groups.set(key, { nodes: [...members], changes: own });
      else known.nodes.push(...members);
    }
  }
  return {
    groups: [...groups.values()]
      .map(({ nodes, changes }) => ({ nodes: nodes.sort(), changes }))
      .sort((a, b) => ((a.nodes[0] ?? '') < (b.nodes[0] ?? '') ? -1 : 1)),
    nodesAdded: [...after.nodeAddresses.keys()].filter((name) => !before.nodeAddresses.has(name)).sort(),
    nodesRemoved: names.filter((name) => !after.nodeAddresses.has(name)).sort(),
  };
}

/**
 * Divides nodes by the rules that apply to them, and by the families of their addresses. Cost: the
 * size of all different spans.
 */
function nodeClasses(nodes: readonly string[], states: readonly Compiled[]): string[][] {
  const classOf = new Map(nodes.map((node) => [node, 0]));
  let count = 1;
  const split = (members: Iterable<string>, of: (node: string) => string = () => ''): void => {
    const parts = new Map<string, number>();
    for (const node of members) {
      const now = classOf.get(node);
      if (now === undefined) continue;
      const key = `${now} ${of(node)}`;
      const part = parts.get(key) ?? count++;
      parts.set(key, part);
      classOf.set(node, part);
    }
  };
  for (const { nodeAddresses, policies } of states) {
    split(nodes, (node) => familiesOf(nodeAddresses.get(node) ?? []));
    for (const span of new Set(policies.flatMap(({ spans }) => spans))) split(span);
  }
  return [...Map.groupBy(nodes, (node) => classOf.get(node)).values()];
}

function familiesOf(addresses: readonly string[]): string {
  return `${addresses.some((text) => text.includes('.'))} ${addresses.some((text) => text.includes(':'))}`;
}

/**
 * Leaves out the rows whose peers are all addresses of the node itself; yields no nodes without
 * rows.
 */
function* withOwnRows(
  rows: readonly NumberedRow[],
  nodes: readonly string[],
  { states, families }: { readonly states: readonly Compiled[]; readonly families: readonly Family[] },
): Iterable<readonly [Row[], readonly string[]]> {
  if (rows.length === 0) return;
  const sizes = rows.map(sizeOf);
  const byLeftOut = new Map<string, string[]>();
  for (const node of nodes) {
    const own = ownAddresses(node, states);
    const isOwn = (row: NumberedRow, i: number): boolean =>
      Number(sizes[i]) <= own.length && Number(sizes[i]) === countWithin(row, own);
    const leftOut = rows.flatMap((row, i) => (isOwn(row, i) ? [i] : []));
    const key = leftOut.join();
    const same = byLeftOut.get(key);
    if (same === undefined) byLeftOut.set(key, [node]);
    else same.push(node);
  }
  for (const [key, members] of byLeftOut) {
    const leftOut = new Set(key === '' ? [] : key.split(',').map(Number));
    const kept = rows.filter((_, i) => !leftOut.has(i));
    const [only = '', ...others] = members;
    const own = others.length === 0 ? ownAddresses(only, states) : [];
    const changes = kept.map((row) => withoutOwnGaps(row, own, families).row);
    if (changes.length > 0) yield [changes, members];
  }
}

function sizeOf({ peers }: NumberedRow): bigint {
  return [...peers[4], ...peers[6]].reduce((sum, { first, last }) => sum + last - first + 1n, 0n);
}

function ownAddresses(node: string, states: readonly Compiled[]): readonly Address[] {
  const texts = states.flatMap(({ nodeAddresses }) => nodeAddresses.get(node) ?? []);
  const known = new Map(
    texts.flatMap((text) => parseAddress(text) ?? []).map((one) => [formatAddress(one), one]),
  );
  return [...known.values()];
}

function countWithin({ peers }: NumberedRow, own: readonly Address[]): number {
  return own.filter(({ family, value }) =>
    peers[family].some(({ first, last }) => first <= value && value <= last),
  ).length;
}

/** A Node's own addresses do not count: a gap of nothing else is closed, which is easier to read. */
function withoutOwnGaps(row: NumberedRow, own: readonly Address[], families: readonly Family[]): NumberedRow {
  if (own.length === 0) return row;
  const isOwn = (family: Family, value: bigint): boolean =>
    own.some((one) => one.family === family && one.value === value);
  const isOwnGap = (family: Family, from: bigint, to: bigint): boolean => {
    if (to - from >= BigInt(own.length)) return false;
    for (let value = from; value <= to; value++) if (!isOwn(family, value)) return false;
    return true;
  };
  const closed = (family: Family): readonly Interval[] => {
    const ranges: Interval[] = [];
    for (const next of row.peers[family]) {
      const last = ranges.at(-1);
      if (last !== undefined && isOwnGap(family, last.last + 1n, next.first - 1n)) {
        ranges[ranges.length - 1] = { first: last.first, last: next.last };
      } else ranges.push(next);
    }
    return ranges;
  };
  return withPeers(row, { 4: closed(4), 6: closed(6) }, families);
}
