import type { Compiled, NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import type { NodeGroup, Row } from '../apis/difference/row.ts';
import { nameResolver } from '../apis/names.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { validateOptions } from '../apis/validate/object.ts';
import { fileText, STANDARD_INPUT } from '../apis/validate/problem.ts';
import { compile } from '../controller/compile/compile.ts';
import { type ClusterDifference, clusterDifference } from '../controller/difference/cluster-difference.ts';
import { type DiffSide, Names, shownChanges } from '../controller/difference/row-text.ts';
import type { Snapshot } from '../controller/watch/source.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { present } from '../lib/sharing/present.ts';
import { printable } from '../lib/sharing/safe-text.ts';
import { clusterSnapshot } from './cluster-api.ts';
import { load, loadConfig, warnUnknownNames } from './load.ts';
import { MachineNode } from './machine-node.ts';
import { loadNames } from './names.ts';
import { json, print, table } from './output.ts';

interface DiffOptions {
  /** Which side the state in force is; false: none. */
  readonly againstCluster: 'OLD' | 'NEW' | false;
  /** Absent: the pod's service account. */
  readonly kubeconfig?: string;
  readonly node?: string;
  readonly names?: string;
  readonly config?: string;
  readonly failOn: 'any' | 'denied' | 'allowed';
  readonly output: 'text' | 'json' | 'markdown';
}

/**
 * Prints the flows whose verdict differs between two sets of manifests, or one and a cluster.
 * Throws a CommandError if one cannot be read: what it holds is not known, so nothing can be said.
 */
export async function diffCommand(paths: readonly string[], options: DiffOptions): Promise<ExitStatus> {
  const config = await readable(loadConfig(options.config));
  const { before, after } = await loadSides(paths, config, options);
  const { node } = options;
  if (node !== undefined) checkNode(node, before.compiled, after.compiled);
  const resolve = await readable(resolvers(options.names, [before, after]));
  const difference = clusterDifference(before.compiled, after.compiled, {
    config,
    resolve,
    ...present({ node }),
  });
  await print(textOf(difference, { before, after, config, node }, options.output));
  const differs = difference.groups.some(({ changes }) => changes.some((row) => counts(row, options.failOn)));
  return differs ? EXIT.invalid : EXIT.done;
}

/** Status 1 says that a verdict differs: what cannot be read has another. */
async function readable<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof CommandError && error.status === EXIT.invalid) {
      throw new CommandError(EXIT.refused, error.message, { cause: error });
    }
    throw error;
  }
}

async function loadSides(
  [first, second, ...others]: readonly string[],
  config: Config,
  { againstCluster, kubeconfig }: DiffOptions,
): Promise<LoadedSides> {
  if (againstCluster === false) {
    if (first === undefined || second === undefined || others.length > 0)
      throw new CommandError(EXIT.usage, 'give two directories or files of manifests: OLD NEW');
    if (first === STANDARD_INPUT && second === STANDARD_INPUT)
      throw new CommandError(EXIT.usage, 'only one of OLD and NEW can be standard input');
    return atMachine(
      { before: await loadSide('OLD', first, config), after: await loadSide('NEW', second, config) },
      config,
    );
  }
  if (first === undefined || second !== undefined)
    throw new CommandError(EXIT.usage, 'give one directory or file of manifests beside --against-cluster');
  const inForce = await readable(clusterSnapshot(kubeconfig, config, false));
  const { objects } = inForce;
  const cluster = { objects, compiled: compile(objects) };
  const given = await loadSide(againstCluster === 'OLD' ? 'NEW' : 'OLD', first, config, inForce);
  return againstCluster === 'OLD' ? { before: cluster, after: given } : { before: given, after: cluster };
}

interface LoadedSide extends DiffSide {
  readonly objects: ClusterObjects;
}

interface LoadedSides {
  readonly before: LoadedSide;
  readonly after: LoadedSide;
}

/** The sides as they are on this machine, if neither has a Node: those of a server. */
function atMachine({ before, after }: LoadedSides, config: Config): LoadedSides {
  if ([before, after].some(({ objects }) => objects.nodes.length > 0)) return { before, after };
  const machine = new MachineNode({ ...validateOptions(config), egress: true });
  process.stderr.write(`${machine.text(before.objects)}\n`);
  const here = ({ objects: read }: LoadedSide): LoadedSide => {
    const objects = machine.with(read);
    return { objects, compiled: compile(objects) };
  };
  return { before: here(before), after: here(after) };
}

/**
 * @param cluster has the Nodes, pods and so on of manifests without, and the versions that stay in
 *   force where an object waits for another one
 */
async function loadSide(
  which: 'OLD' | 'NEW',
  path: string,
  config: Config,
  cluster: Snapshot | null = null,
): Promise<LoadedSide> {
  const options = { label: `${which}: `, cluster, isApplied: true };
  const { objects, problems } = await load({ manifests: [path] }, config, options);
  // A file that is not YAML may hold anything.
  if (
    problems.some(({ unreadable, severity, kind }) => unreadable || (severity === 'error' && kind === ''))
  ) {
    throw new CommandError(EXIT.refused, `${which} (${fileText(path)}) cannot be read; see above`);
  }
  return { objects, compiled: compile(objects) };
}

function checkNode(node: string, before: Compiled, after: Compiled): void {
  for (const [which, { nodeAddresses }] of [
    ['OLD', before],
    ['NEW', after],
  ] as const) {
    if (nodeAddresses.has(node)) continue;
    const known = [...nodeAddresses.keys()].sort().slice(0, 10).join(', ');
    throw new CommandError(
      EXIT.usage,
      `--node: ${which} has no Node ${node}; ${known === '' ? 'it has none' : `it has ${known}`}`,
    );
  }
}

/** Warns of names without addresses, of both sides at once. */
async function resolvers(path: string | undefined, sides: readonly DiffSide[]) {
  const table = path === undefined ? null : await loadNames(path);
  warnUnknownNames(
    sides.flatMap(({ compiled }) => [...compiled.addressSets.values()]),
    table,
    path,
  );
  const resolver = (): ((state: NodeState) => NodeState) => {
    const resolve = nameResolver();
    return (state) => (table === null ? state : resolve(state, table));
  };
  return { before: resolver(), after: resolver() };
}

function counts({ before, after }: Row, failOn: DiffOptions['failOn']): boolean {
  if (failOn === 'denied') return before === 'Allow';
  return failOn === 'any' || after === 'Allow';
}

interface Context {
  readonly config: Config;
  readonly before: DiffSide;
  readonly after: DiffSide;
  /** The only node that was compared; undefined: all were. */
  readonly node: string | undefined;
}

function textOf(difference: ClusterDifference, context: Context, output: DiffOptions['output']): string {
  if (output === 'text') return diffText(difference, context);
  if (output === 'markdown') return diffMarkdown(difference, context);
  const { groups, nodesAdded, nodesRemoved } = difference;
  return json(context.node === undefined ? { groups, nodesAdded, nodesRemoved } : { groups });
}

/** Items that a cell has at most: -o json has all. */
const MOST_NODES = 6;

const HEADER = ['direction', 'traffic', 'flows', 'peers', 'before', 'after'];

/** For people: one table for each group of Nodes. */
function diffText(difference: ClusterDifference, context: Context): string {
  const names = new Names(context);
  const groups = difference.groups.map((group) => {
    const rows = rowsOf(group, difference, names);
    return `${nodesText(group)}\n${table(HEADER, rows)}`;
  });
  return [...groups, summary(difference, context)].join('\n');
}

/** For a comment in a code review. */
function diffMarkdown(difference: ClusterDifference, context: Context): string {
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
    ...(node !== undefined || nodesAdded.length === 0
      ? []
      : [`Added: ${nodesText({ nodes: nodesAdded, changes: [] })}.`]),
    ...(node !== undefined || nodesRemoved.length === 0
      ? []
      : [`Removed: ${nodesText({ nodes: nodesRemoved, changes: [] })}.`]),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
