import type { Compiled, CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { DecidingRule } from '../../apis/difference/row.ts';
import { FINDING_KINDS, type Finding } from '../../apis/lint/finding.ts';
import { StateLint, type StateLintOptions } from '../../apis/lint/state-lint.ts';
import { nodeView } from '../publish/node-view.ts';
import { nodeClasses } from './cluster-difference.ts';

/** A finding, and the Nodes where it holds. */
export interface NodeFinding extends Finding {
  /** Sorted; `flow` is one of the first. Empty: the rule applies to no Node. */
  readonly nodes: readonly string[];
}

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

/** Rules that a sentence names at most. */
const MOST_RULES = 5;

/** A finding as a sentence about its rule, without the rule. */
export function findingText({ kind, rules, left }: Finding): string {
  switch (kind) {
    case 'unreachable':
      return rules.length === 0
        ? 'decides nothing: all that it matches is decided before any rule (exemptions, anti-spoofing)'
        : `decides nothing: ${named(rules)} ${rules.length === 1 ? 'matches' : 'match'} all of its flows first`;
    case 'selects-nothing':
      return 'matches no flow there: its peers have no address, or only of a family that the Node does not have';
    case 'no-effect':
      return rules.length === 0
        ? 'changes no verdict: its flows are allowed without it too, as no other rule decides them or the failsafe list keeps them open'
        : `changes no verdict: without it ${named(rules)} would decide with the same one`;
    case 'partly-shadowed':
      return `decides ${percent(left ?? 0)} of what it matches: ${named(rules)} decide${rules.length === 1 ? 's' : ''} the rest first, with another verdict`;
    case 'wider':
      return `is wider than ${named(rules)}, with the same verdict`;
    case 'failsafe':
      return 'does not close what the failsafe list keeps open; a rule that names the ports would';
    default:
      return kind satisfies never;
  }
}

function named(rules: readonly DecidingRule[]): string {
  const names = rules.slice(0, MOST_RULES).map(({ policy, rule }) => `${policy}/${rule}`);
  const rest = rules.length - names.length;
  return rest > 0 ? `${names.join(', ')} and ${rest} more` : names.join(', ');
}

/** No share is rounded to all or nothing. */
function percent(share: number): string {
  if (share > 0.999) return 'nearly all';
  return share < 0.001 ? 'nearly nothing' : `${(share * 100).toFixed(1)} %`;
}
