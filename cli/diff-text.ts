import type { Config } from '../apis/config.ts';
import type { ClusterDifference, NodeGroup } from '../controller/difference/cluster-difference.ts';
import { type DiffSide, Names, shownChanges } from '../controller/difference/row-text.ts';
import { printable } from '../lib/sharing/printable.ts';
import { table } from './output.ts';

interface Context {
  readonly config: Config;
  readonly before: DiffSide;
  readonly after: DiffSide;
  /** The only node that was compared; null: all were. */
  readonly node: string | null;
}

/** Items that a cell has at most: -o json has all. */
const MOST_NODES = 6;

const HEADER = ['direction', 'traffic', 'flows', 'peers', 'before', 'after'];

/** For people: one table for each group of Nodes. */
export function diffText(difference: ClusterDifference, context: Context): string {
  const names = new Names(context);
  const groups = difference.groups.map((group) => {
    const rows = rowsOf(group, difference, names);
    return `${nodesText(group)}\n${table(HEADER, rows)}`;
  });
  return [...groups, summary(difference, context)].join('\n');
}

/** For a comment in a code review. */
export function diffMarkdown(difference: ClusterDifference, context: Context): string {
  const names = new Names(context);
  const line = (row: readonly string[]): string => `| ${row.map(escaped).join(' | ')} |\n`;
  const groups = difference.groups.map((group) => {
    const rows = rowsOf(group, difference, names).map(line);
    return `### ${escaped(nodesText(group))}\n\n${line(HEADER)}${line(HEADER.map(() => '---'))}${rows.join('')}`;
  });
  return [...groups, summary(difference, context)].join('\n');
}

/** The exceptions of a wide change stand below it, without the cells that they share. */
function rowsOf(group: NodeGroup, { wide }: ClusterDifference, names: Names): (readonly string[])[] {
  return shownChanges(group, wide(group), names).flatMap(({ cells, exceptions }) => [
    cells,
    ...exceptions.map(([, , flows = '', peers = '']) => ['', '', `  and but ${flows}`, peers, '', '']),
  ]);
}

/** Names come from manifests: none may end a cell, or make a link or an element. */
function escaped(text: string): string {
  return printable(text)
    .replaceAll(/[\\`*_{}[\]<>|~]/g, (character) => `\\${character}`)
    .replaceAll(/\s+/g, ' ');
}

function nodesText({ nodes }: NodeGroup): string {
  const shown = nodes.slice(0, MOST_NODES).join(', ');
  const rest = nodes.length - MOST_NODES;
  return `${nodes.length === 1 ? 'Node' : 'Nodes'} ${shown}${rest > 0 ? ` and ${rest} more` : ''}`;
}

function summary({ groups, nodesAdded, nodesRemoved }: ClusterDifference, { node }: Context): string {
  const rows = groups.flatMap(({ changes }) => changes);
  const nodes = groups.reduce((sum, group) => sum + group.nodes.length, 0);
  const lines = [
    rows.length === 0
      ? 'No verdict differs.'
      : `Verdicts differ on ${nodes} ${nodes === 1 ? 'Node' : 'Nodes'}: ${rows.length} ${rows.length === 1 ? 'set' : 'sets'} of flows.`,
    ...(node !== null || nodesAdded.length === 0
      ? []
      : [`Added: ${nodesText({ nodes: nodesAdded, changes: [] })}.`]),
    ...(node !== null || nodesRemoved.length === 0
      ? []
      : [`Removed: ${nodesText({ nodes: nodesRemoved, changes: [] })}.`]),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
