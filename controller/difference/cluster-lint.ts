import type { Compiled, CompiledRule, NodeState } from '../../apis/compiled.ts';
import { type Lint, MOST_FINDINGS, MOST_NAMED } from '../../apis/console-documents.ts';
import { FINDING_KINDS, MOST_NAMED_RULES, type NodeFinding } from '../../apis/lint/finding.ts';
import { StateLint, type StateLintOptions } from '../../apis/lint/state-lint.ts';
import { nodeView } from '../publish/node-view.ts';
import { nodeClasses } from './cluster-difference.ts';

interface ClusterLintOptions extends StateLintOptions {
  /** Looks at this node alone; absent: at all. */
  readonly node?: string;
  /** Adds the addresses of names to a state. */
  readonly resolve?: (state: NodeState) => NodeState;
}

/**
 * The findings about the rules of a compiled cluster, in the order of policies and rules. Nodes
 * with the same rules are looked at once. Throws if a rule names a link group that is not in the
 * configuration.
 */
export function clusterLint(compiled: Compiled, options: ClusterLintOptions): NodeFinding[] {
  const { node, resolve = (state) => state, isWanted = () => true } = options;
  const names = [...compiled.nodeAddresses.keys()].sort();
  const classes = nodeClasses(node === undefined ? names : [node], [compiled]);
  const lint = new StateLint(options);
  const registered = classes.flatMap((nodes) => {
    const state = nodeView(compiled, nodes[0] ?? '');
    return state.rules.some(isWanted) ? { nodes, of: lint.register(resolve(state)) } : [];
  });
  const found = new Map<string, NodeFinding>();
  for (const { nodes, of } of registered) {
    // The own addresses of several Nodes are peers of each other.
    const own = nodes.length === 1 ? of.state.nodeAddresses : [];
    for (const finding of lint.findings(of, own)) {
      const key = JSON.stringify({ ...finding, flow: null });
      const known = found.get(key);
      const all = [...(known?.nodes ?? []), ...nodes].sort();
      found.set(key, { ...(known ?? finding), nodes: all });
    }
  }
  const unused = node === undefined ? withoutNode(compiled, isWanted) : [];
  return inOrder([...unused, ...found.values()], compiled);
}

function withoutNode({ policies }: Compiled, isWanted: (rule: CompiledRule) => boolean): NodeFinding[] {
  return policies.flatMap(({ rules, spans }) =>
    rules
      .filter((rule, i) => spans[i]?.size === 0 && isWanted(rule))
      .map(({ source: { policy, rule, ruleIndex, direction } }): NodeFinding => {
        const of = { policy, rule, ruleIndex, direction };
        return { kind: 'selects-nothing', ...of, rules: [], left: null, flow: null, nodes: [] };
      }),
  );
}

function inOrder(findings: readonly NodeFinding[], { policies }: Compiled): NodeFinding[] {
  const places = new Map(policies.map(({ name }, i) => [name, i]));
  const placeOf = ({ policy, direction, ruleIndex, kind, nodes }: NodeFinding) =>
    [
      ...[places.get(policy) ?? 0, direction === 'ingress' ? 0 : 1, ruleIndex, FINDING_KINDS.indexOf(kind)],
      nodes[0] ?? '',
    ] as const;
  return findings
    .map((finding) => ({ finding, place: placeOf(finding) }))
    .sort((a, b) => {
      const at = a.place.findIndex((value, i) => value !== b.place[i]);
      return at === -1 ? 0 : (a.place[at] ?? 0) < (b.place[at] ?? 0) ? -1 : 1;
    })
    .map(({ finding }) => finding);
}

/** As many of the findings, and of the names in them, as the console shows. */
export function firstFindings(found: readonly NodeFinding[]): Omit<Lint, 'time'> {
  const findings = found.slice(0, MOST_FINDINGS).map((finding) => ({
    ...finding,
    rules: finding.rules.slice(0, MOST_NAMED_RULES),
    ruleCount: finding.rules.length,
    nodes: finding.nodes.slice(0, MOST_NAMED),
    nodeCount: finding.nodes.length,
  }));
  return { findings, leftOut: found.length - findings.length };
}
