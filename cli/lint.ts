import type { NodeState } from '../apis/compiled.ts';
import { type FindingKind, findingText, type NodeFinding } from '../apis/lint/finding.ts';
import { nameResolver } from '../apis/names.ts';
import { compile } from '../controller/compile/compile.ts';
import { clusterLint } from '../controller/difference/cluster-lint.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { present } from '../lib/sharing/present.ts';
import { type AgainstCluster, type InputOptions, loadObjects, warnUnknownNames } from './load.ts';
import { loadNames } from './names.ts';
import { json, print } from './output.ts';

interface LintOptions extends InputOptions, AgainstCluster {
  readonly node?: string;
  readonly names?: string;
  readonly strict: boolean;
  /** Absent: all kinds. */
  readonly only?: readonly FindingKind[];
  readonly output: 'text' | 'json';
}

/** Prints what is odd about the rules of manifests. */
export async function lintCommand(options: LintOptions): Promise<ExitStatus> {
  const { objects, config, invalid } = await loadObjects(options);
  const compiled = compile(objects);
  const { node, only } = options;
  if (node !== undefined && !compiled.nodeAddresses.has(node)) {
    throw new CommandError(EXIT.invalid, `no manifest declares Node ${node}`);
  }
  const table = options.names === undefined ? null : await loadNames(options.names);
  warnUnknownNames(compiled.addressSets.values(), table, options.names);
  const resolveNames = nameResolver();
  const found = clusterLint(compiled, {
    config,
    resolve: (state: NodeState) => (table === null ? state : resolveNames(state, table)),
    ...present({ node }),
  });
  const findings = found.filter(({ kind }) => only === undefined || only.includes(kind));
  await print(options.output === 'json' ? json({ findings }) : textOf(findings, objects.nodes.length > 0));
  return findings.length > 0 || (invalid && options.strict) ? EXIT.invalid : EXIT.done;
}

/** Nodes that a line names at most: -o json has all. */
const MOST_NODES = 3;

/** Where no Node is known, one line says so, and not each rule. */
function textOf(findings: readonly NodeFinding[], hasNodes: boolean): string {
  const [nowhere, others] = [findings.filter((one) => !hasNodes && one.nodes.length === 0), findings];
  const shown = nowhere.length > 1 ? others.filter((one) => !nowhere.includes(one)) : others;
  const line =
    shown.length === others.length
      ? ''
      : `${nowhere.length} rules apply to no Node, as no manifest declares one: --against-cluster takes the Nodes of a cluster\n\n`;
  return [line, ...shown.map((finding) => `${blockOf(finding)}\n`), summaryText(findings)].join('');
}

/** How many findings there are, and about how many rules. */
export function summaryText(findings: readonly Pick<NodeFinding, 'policy' | 'direction' | 'rule'>[]): string {
  if (findings.length === 0) return 'Nothing found.\n';
  const rules = new Set(findings.map(({ policy, direction, rule }) => `${policy} ${direction} ${rule}`)).size;
  return `${findings.length} ${findings.length === 1 ? 'finding' : 'findings'} about ${rules} ${rules === 1 ? 'rule' : 'rules'}.\n`;
}

function blockOf(finding: NodeFinding): string {
  const { kind, policy, rule, direction, ruleIndex, flow, nodes } = finding;
  const lines = [
    `${kind}: ${policy}/${rule} (${direction}[${ruleIndex}])${nodesText(nodes)}`,
    `  ${findingText(finding)}`,
    ...(flow === null ? [] : [`  for example ${JSON.stringify(flow)}`]),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

/** Begins with a blank; '' without nodes. */
export function nodesText(nodes: readonly string[]): string {
  if (nodes.length === 0) return '';
  const shown = nodes.slice(0, MOST_NODES).join(', ');
  const rest = nodes.length - MOST_NODES;
  return rest > 0 ? ` on ${shown} and ${rest} more` : ` on ${shown}`;
}
