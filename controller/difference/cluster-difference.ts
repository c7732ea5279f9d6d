import type { Compiled, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Leaf } from '../../apis/difference/entry.ts';
import type { NodeGroup, Row } from '../../apis/difference/row.ts';
import { type NumberedRow, withPeers } from '../../apis/difference/rows.ts';
import { commonFamilies, StateDifference, type StatePair } from '../../apis/difference/state-difference.ts';
import { platformText } from '../../apis/platform.ts';
import { type Address, type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import { valuesDigest } from '../../lib/sharing/hash.ts';
import { addToList } from '../../lib/sharing/lists.ts';
import { nodeView } from '../publish/node-view.ts';

/** A change that nearly all flows of a direction have, told by the few that do not. */
export interface WideChange {
  /** Direction, traffic, verdicts and rules are those of the change. */
  readonly change: Row;
  /**
   * The flows without it, besides exempt and spoofed ones, some of which they may hold; fewer than
   * the rows with it.
   */
  readonly exceptions: readonly Row[];
}

export interface ClusterDifference {
  /** Sorted by the first node. */
  readonly groups: readonly NodeGroup[];
  /**
   * For people, who know a default deny by what it leaves out. As much work as the rows of the
   * group.
   */
  readonly wide: (group: NodeGroup) => readonly WideChange[];
  /** Sorted. */
  readonly nodesAdded: readonly string[];
  readonly nodesRemoved: readonly string[];
}

interface ClusterDifferenceOptions {
  readonly config: Config;
  /** Compares this node alone; absent: all. */
  readonly node?: string;
  /** Called often; may throw, which ends the comparison. */
  readonly checkpoint?: () => void;
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
  { config, node, resolve, checkpoint }: ClusterDifferenceOptions,
): ClusterDifference {
  const names = [...before.nodeAddresses.keys()];
  const common = names.filter((name) => after.nodeAddresses.has(name));
  const compared = node === undefined ? common : common.filter((name) => name === node);
  const classes = nodeClasses(compared, [before, after]);
  const difference = new StateDifference(config, checkpoint);
  const same = (state: NodeState): NodeState => state;
  const { before: resolveBefore, after: resolveAfter } = resolve ?? { before: same, after: same };
  const registered = classes.map((nodes) => {
    const [first = ''] = nodes;
    return {
      nodes,
      pair: difference.register(resolveBefore(nodeView(before, first)), resolveAfter(nodeView(after, first))),
    };
  });
  const groups = new GroupCollector();
  for (const { nodes, pair } of registered) {
    const families = commonFamilies(pair);
    for (const one of withOwnRows(difference.rows(pair), nodes, [before, after])) {
      groups.add({ ...one, families, pair });
    }
  }
  const all = new Map(groups.all([before, after]));
  return {
    groups: [...all.keys()],
    wide(group) {
      const pair = all.get(group)?.pair;
      if (pair === undefined) return [];
      return wideChanges(group, (row, change) => difference.exceptions(pair, row, change));
    },
    nodesAdded: [...after.nodeAddresses.keys()].filter((name) => !before.nodeAddresses.has(name)).sort(),
    nodesRemoved: names.filter((name) => !after.nodeAddresses.has(name)).sort(),
  };
}

/** Nodes of one class with the same rows, and the families of their addresses. */
interface NumberedGroup {
  readonly nodes: readonly string[];
  readonly rows: readonly NumberedRow[];
  readonly families: readonly Family[];
  /** The two states of one of the nodes. */
  readonly pair: StatePair;
}

/** Rows of one change from which on its exceptions may be shorter. */
const FEW_ROWS = 3;

type Exceptions = (
  row: Row,
  change: { readonly before: Leaf; readonly after: Leaf },
) => readonly NumberedRow[];

/** The change with most rows of each direction and traffic, if its exceptions are fewer. */
function wideChanges({ changes }: NodeGroup, exceptionsOf: Exceptions): WideChange[] {
  const lists = Map.groupBy(changes, ({ direction, traffic }) => `${direction} ${traffic}`);
  return [...lists.values()].flatMap((rows): WideChange[] => {
    const [most = []] = [...Map.groupBy(rows, changeKey).values()].sort((a, b) => b.length - a.length);
    const [change] = most;
    if (change === undefined || most.length < FEW_ROWS) return [];
    const before = { verdict: change.before, rule: change.ruleBefore };
    const after = { verdict: change.after, rule: change.ruleAfter };
    const exceptions = exceptionsOf(change, { before, after }).map(({ row }) => row);
    return exceptions.length < most.length ? [{ change, exceptions }] : [];
  });
}

/** Rows with the same one have the same verdicts and rules. */
export function changeKey({ direction, traffic, before, after, ruleBefore, ruleAfter }: Row): string {
  return JSON.stringify([direction, traffic, before, after, ruleBefore, ruleAfter]);
}

/** Joins groups with the same rows. */
class GroupCollector {
  readonly #groups = new Map<string, NumberedGroup>();

  add(group: NumberedGroup): void {
    this.#add(valuesDigest(changesOf(group)), group);
  }

  #add(key: string, group: NumberedGroup): void {
    const known = this.#groups.get(key);
    const nodes = [...(known?.nodes ?? []), ...group.nodes].sort();
    this.#groups.set(key, { ...(known ?? group), nodes });
  }

  /** For a Node without equals, gaps at its own addresses are closed. */
  all(states: readonly Compiled[]): (readonly [NodeGroup, NumberedGroup])[] {
    const readable = new GroupCollector();
    for (const [key, group] of this.#groups) {
      const { nodes, rows, families } = group;
      const [only = '', ...others] = nodes;
      const own = others.length > 0 ? [] : ownAddresses(only, states);
      const free = own.filter((one) => rows.every((row) => countWithin(row, [one]) === 0));
      if (free.length === 0) readable.#add(key, group);
      else readable.add({ ...group, rows: rows.map((row) => closed(row, free, families)) });
    }
    return [...readable.#groups.values()]
      .map((group) => [{ nodes: group.nodes, changes: changesOf(group) }, group] as const)
      .sort(([a], [b]) => ((a.nodes[0] ?? '') < (b.nodes[0] ?? '') ? -1 : 1));
  }
}

function changesOf({ rows }: NumberedGroup): Row[] {
  return rows.map(({ row }) => row);
}

/**
 * Leaves out the rows whose peers are all addresses of the node itself; yields no nodes without
 * rows.
 */
function* withOwnRows(
  rows: readonly NumberedRow[],
  nodes: readonly string[],
  states: readonly Compiled[],
): Iterable<Pick<NumberedGroup, 'nodes' | 'rows'>> {
  if (rows.length === 0) return;
  const sized = rows.map((row, i) => ({ row, i, size: sizeOf(row) }));
  const ownOf = new Map(nodes.map((node) => [node, ownAddresses(node, states)]));
  const most = Math.max(...[...ownOf.values()].map((own) => own.length));
  const small = sized.filter(({ size }) => size <= most);
  const byLeftOut = new Map<string, string[]>();
  for (const [node, own] of ownOf) {
    const leftOut = small.filter(({ row, size }) => Number(size) === countWithin(row, own));
    addToList(byLeftOut, leftOut.map(({ i }) => i).join(), node);
  }
  for (const [key, members] of byLeftOut) {
    const leftOut = new Set(key === '' ? [] : key.split(',').map(Number));
    const kept = rows.filter((_, i) => !leftOut.has(i));
    if (kept.length > 0) yield { nodes: members, rows: kept };
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

/** Closes gaps of nothing but these addresses, which do not count, and which no row has. */
function closed(row: NumberedRow, own: readonly Address[], families: readonly Family[]): NumberedRow {
  const isOwn = (family: Family, from: bigint, to: bigint): boolean => {
    const inside = own.filter((one) => one.family === family && from <= one.value && one.value <= to);
    return BigInt(inside.length) === to - from + 1n;
  };
  const rangesOf = (family: Family): readonly Interval[] => {
    const ranges: Interval[] = [];
    for (const next of row.peers[family]) {
      const last = ranges.at(-1);
      if (last !== undefined && isOwn(family, last.last + 1n, next.first - 1n)) {
        ranges[ranges.length - 1] = { first: last.first, last: next.last };
      } else ranges.push(next);
    }
    return ranges;
  };
  return withPeers(row, { 4: rangesOf(4), 6: rangesOf(6) }, families);
}

/**
 * Divides nodes by the rules that apply to them, by the families of their addresses, and by what
 * carries their pods. Cost: the size of all different spans.
 */
export function nodeClasses(nodes: readonly string[], states: readonly Compiled[]): string[][] {
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
  for (const { nodeAddresses, platforms, policies } of states) {
    split(nodes, (node) => familiesOf(nodeAddresses.get(node) ?? []));
    if (platforms !== undefined) split(nodes, (node) => platformText(platforms.get(node) ?? []));
    for (const span of new Set(policies.flatMap(({ spans }) => spans))) split(span);
  }
  return [...Map.groupBy(nodes, (node) => classOf.get(node)).values()];
}

function familiesOf(addresses: readonly string[]): string {
  return `${addresses.some((text) => text.includes('.'))} ${addresses.some((text) => text.includes(':'))}`;
}
