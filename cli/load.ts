import type { AddressSet, Compiled, NodeState } from '../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../apis/config.ts';
import type { NameTable } from '../apis/names.ts';
import type { ClusterObjects, Problem } from '../apis/objects.ts';
import { formatProblem, hasError } from '../apis/validate/problem.ts';
import type { LoadedManifests, Snapshot } from '../controller/watch/source.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { readInput } from '../lib/process/option-value.ts';
import { clusterSnapshot } from './cluster-api.ts';

/** Options of all commands that read manifests. */
export interface InputOptions {
  readonly manifests: readonly string[];
  readonly config?: string;
}

/** Options of commands whose manifests may be for a cluster. */
export interface AgainstCluster {
  /** Manifests without Nodes, pods and so on have those of the cluster. */
  readonly againstCluster?: boolean;
  readonly kubeconfig?: string;
}

export interface NodeOptions extends InputOptions {
  /** Absent: this machine. */
  readonly node?: string;
  readonly names?: string;
  readonly strict?: boolean;
}

/**
 * Reads the configuration file; without a path, returns the defaults. Throws a CommandError that
 * names all problems at once.
 */
export async function loadConfig(path: string | undefined): Promise<Config> {
  if (path === undefined) return DEFAULT_CONFIG;
  const text = await readInput('--config', path);
  const { parseConfig } = await import('../apis/config-file.ts');
  const { config, problems } = parseConfig(text, path);
  const lines = problems.map(formatProblem).join('\n');
  if (config === null) throw new CommandError(EXIT.invalid, `the configuration is not valid:\n${lines}`);
  if (lines !== '') process.stderr.write(`${lines}\n`);
  return config;
}

/**
 * Loads manifests and writes their problems to standard error; invalid objects are left out.
 * Without the warning that a policy closes SSH, which only `validate` gives.
 *
 * @param label begins each line
 * @param cluster has the Nodes, pods and so on of manifests without
 * @param isApplied whether what is in force in the cluster stays where it takes no manifest
 */
export async function load(
  { manifests }: Pick<InputOptions, 'manifests'>,
  config: Config,
  { label = '', cluster = null, isApplied = false }: LoadOptions = {},
): Promise<LoadedManifests> {
  const { loadManifests, versionsInForce } = await import('../controller/watch/manifests.ts');
  const { validateOptions } = await import('../apis/validate/object.ts');
  const options = { ...validateOptions(config), failsafe: null, egress: true };
  const inForce = isApplied && cluster !== null ? versionsInForce(cluster.objects) : undefined;
  const loaded = await loadManifests(manifests, options, inForce, cluster);
  printProblems(loaded.problems, label);
  return loaded;
}

interface LoadOptions {
  readonly label?: string;
  readonly cluster?: Snapshot | null;
  readonly isApplied?: boolean;
}

/** Writes them to standard error; `label` begins each line. */
export function printProblems(problems: readonly Problem[], label: string): void {
  for (const problem of problems) process.stderr.write(`${label}${formatProblem(problem)}\n`);
}

/** Says on standard error if agents with this configuration steer nothing. */
export function warnEgressIsOff({ featureGates }: Config): void {
  if (featureGates.EgressGateway === true) return;
  process.stderr.write(
    'feature gate EgressGateway is off in this configuration: agents with it steer no connection\n',
  );
}

/** Names the fqdn peers without addresses. `path`: the file of `--names`; undefined: none. */
export function warnUnknownNames(
  sets: Iterable<AddressSet>,
  table: NameTable | null,
  path: string | undefined,
): void {
  const peers = new Set([...sets].flatMap((set) => set.names));
  const unknown = [...peers].filter((peer) => table === null || table.addresses(peer).length === 0).sort();
  if (unknown.length === 0) return;
  const where = path === undefined ? 'with --names FILE' : `in ${path}`;
  process.stderr.write(
    `no address is known for ${unknown.join(', ')}: these fqdn peers match nothing here; give their addresses ${where}\n`,
  );
}

/** The rules and sets of one node. Throws a CommandError if no manifest declares the node. */
async function viewOf(compiled: Compiled, node: string): Promise<NodeState> {
  const { nodeView } = await import('../controller/publish/node-view.ts');
  if (compiled.nodeAddresses.has(node)) return nodeView(compiled, node);
  const known = [...compiled.nodeAddresses.keys()].sort().slice(0, 10).join(', ');
  throw new CommandError(
    EXIT.invalid,
    `no manifest declares Node ${node}; ${known === '' ? 'there is none: add one of kind Node' : `declared: ${known}`}`,
  );
}

interface LoadedObjects {
  readonly objects: ClusterObjects;
  readonly config: Config;
  /** Whether an object was invalid and left out. */
  readonly invalid: boolean;
}

/** The cluster that manifests are for; null: they are for none. */
export async function clusterOf(
  { againstCluster = false, kubeconfig }: AgainstCluster,
  config: Config,
): Promise<Snapshot | null> {
  if (!againstCluster) return null;
  return await clusterSnapshot(kubeconfig, config, false);
}

/** Stage 1. Throws a CommandError if the manifests cannot be read. */
export async function loadObjects(options: InputOptions & AgainstCluster): Promise<LoadedObjects> {
  const config = await loadConfig(options.config);
  const { objects, problems } = await load(options, config, { cluster: await clusterOf(options, config) });
  if (problems.some(({ unreadable, file }) => unreadable && options.manifests.includes(file))) {
    throw new CommandError(EXIT.invalid, 'the manifests cannot be read; see above');
  }
  return { objects, config, invalid: hasError(problems) };
}

/**
 * The node of a command without --node: this machine, by the manifest of that name, or, if no
 * manifest declares a Node, made of it; says which on standard error. Throws a CommandError if
 * manifests declare other Nodes only.
 */
async function atThisMachine<T extends LoadedObjects>(loaded: T): Promise<{ loaded: T; node: string }> {
  const { objects, config } = loaded;
  const { MachineNode, undeclaredText } = await import('./machine-node.ts');
  const { validateOptions } = await import('../apis/validate/object.ts');
  const machine = new MachineNode({ ...validateOptions(config), egress: true });
  const { name } = machine;
  const withNode = machine.with(objects);
  if (!withNode.nodes.some((node) => node.name === name))
    throw new CommandError(EXIT.usage, `give --node NAME: ${undeclaredText(name, objects)}`);
  process.stderr.write(`${machine.text(objects)}\n`);
  return { loaded: { ...loaded, objects: withNode }, node: name };
}

interface LoadedNode extends LoadedObjects {
  readonly state: NodeState;
}

/**
 * Stages 1 to 4, for a command about one node; fqdn peers are not resolved. Throws a CommandError
 * if the manifests cannot be read or do not declare the node.
 */
export async function loadNode(options: NodeOptions): Promise<LoadedNode> {
  const loaded = await loadObjects(options);
  return { ...loaded, state: await nodeState(loaded, options.node) };
}

async function nodeState(given: LoadedObjects, name: string | undefined): Promise<NodeState> {
  const { loaded, node } = name === undefined ? await atThisMachine(given) : { loaded: given, node: name };
  const { objects, config } = loaded;
  const { compile } = await import('../controller/compile/compile.ts');
  const state = await viewOf(compile(objects), node);
  const isUsed = objects.egressGateways.length > 0 || objects.egressPolicies.length > 0;
  if (!isUsed && config.featureGates.EgressGateway !== true) return state;
  const { declaredEgress } = await import('./egress/declared-egress.ts');
  return declaredEgress(state, objects, config);
}

/** The state with the addresses of the Node's pods, which `explain` tells from those of others. */
export async function withDeclaredPods(
  state: NodeState,
  { pods }: Pick<ClusterObjects, 'pods'>,
): Promise<NodeState> {
  const { localPodsSet } = await import('../agent/interfaces/local-pods.ts');
  const { toMemberSet } = await import('../lib/net/member-set.ts');
  const own = pods.filter(({ node }) => node === state.node).flatMap(({ addresses }) => addresses);
  return { ...state, localPods: localPodsSet(toMemberSet([], own)) };
}

/**
 * Like loadNode, with the addresses of fqdn peers from `--names`. Peers without an address match
 * nothing and are named on standard error.
 */
export async function loadResolvedNode(options: NodeOptions): Promise<LoadedNode> {
  const loaded = await loadObjects(options);
  return { ...loaded, state: await resolvedState(loaded, { names: undefined, node: undefined, ...options }) };
}

/** The resolved state of loadResolvedNode, of objects that are loaded already. */
export async function resolvedState(
  loaded: LoadedObjects,
  { node, names: path }: { readonly node: string | undefined; readonly names: string | undefined },
): Promise<NodeState> {
  const { loadNames } = await import('./names.ts');
  const names = path === undefined ? null : await loadNames(path);
  const state = await nodeState(loaded, node);
  warnUnknownNames(state.addressSets.values(), names, path);
  if (names === null) return state;
  const { nameResolver } = await import('../apis/names.ts');
  return nameResolver()(state, names);
}
