import type { Compiled, CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { type BrokenFlows, RequiredFlows } from '../../apis/difference/required-flows.ts';
import { witnessOf } from '../../apis/difference/witness.ts';
import type {
  ClusterNetworkPolicy,
  ClusterObjects,
  Direction,
  Guardrail,
  PolicyTraffic,
  RequiredFlow,
} from '../../apis/objects.ts';
import type { Violation } from '../../apis/validate/guardrail.ts';
import { addToList } from '../../lib/sharing/lists.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { present } from '../../lib/sharing/present.ts';
import { nodeView } from '../publish/node-view.ts';
import { nodeClasses } from './cluster-difference.ts';

/** Flows of one item that are broken on some nodes. */
interface BrokenItem {
  readonly guardrail: string;
  readonly item: string;
  readonly flows: readonly BrokenFlows[];
}

interface CheckOptions {
  readonly config: Config;
  /** The most violations of each Guardrail; absent: all. */
  readonly most?: number;
  /** Called often; may throw, which ends the check. */
  readonly checkpoint?: () => void;
}

/**
 * The violations of Guardrails in a compiled state of `withGuardrails`, by name of the Guardrail:
 * one for each Node and item, by node name. Guardrails that hold are left out. Nodes with the same
 * rules are checked once. Throws if a rule names a link group that is not in the configuration.
 */
export function checkGuardrails(
  compiled: Compiled,
  { most = Number.POSITIVE_INFINITY, ...options }: CheckOptions,
): ReadonlyMap<string, readonly Violation[]> {
  const brokenAt = new Map<string, readonly BrokenItem[]>();
  for (const { nodes, broken } of brokenClasses(compiled, options))
    for (const node of nodes) brokenAt.set(node, broken);
  const violations = new Map<string, Violation[]>();
  for (const node of [...brokenAt.keys()].sort()) {
    for (const one of brokenAt.get(node) ?? []) {
      if ((violations.get(one.guardrail)?.length ?? 0) >= most) continue;
      const violation = violationOf(one, node, compiled);
      if (violation !== null) addToList(violations, one.guardrail, violation);
    }
  }
  return violations;
}

/**
 * One violation of each Guardrail that does not hold: as checkGuardrails, but looks for no more.
 */
export function brokenGuardrails(
  compiled: Compiled,
  options: Omit<CheckOptions, 'most'>,
): ReadonlyMap<string, Violation> {
  const found = new Map<string, Violation>();
  for (const { nodes, broken } of brokenClasses(compiled, options, (guardrail) => !found.has(guardrail))) {
    for (const one of broken) {
      for (const node of found.has(one.guardrail) ? [] : nodes) {
        const violation = violationOf(one, node, compiled);
        if (violation === null) continue;
        found.set(one.guardrail, violation);
        break;
      }
    }
  }
  return found;
}

/** Null: the flows are those of the node with itself. */
function violationOf({ item, flows }: BrokenItem, node: string, compiled: Compiled): Violation | null {
  const witness = witnessOf(flows, compiled.nodeAddresses.get(node) ?? []);
  return witness === null ? null : { node, item, ...witness };
}

/**
 * The broken items of Nodes with the same rules, by the first Node.
 *
 * @param isWanted asked before a class is checked; items of other Guardrails are left out
 */
function* brokenClasses(
  compiled: Compiled,
  { config, checkpoint }: Omit<CheckOptions, 'most'>,
  isWanted: (guardrail: string) => boolean = () => true,
): Iterable<{ readonly nodes: readonly string[]; readonly broken: readonly BrokenItem[] }> {
  const selected = new Set<string>();
  for (const { name, spans } of compiled.policies) {
    if (guardrailOf(name) !== null) for (const span of spans) for (const node of span) selected.add(node);
  }
  const required = new RequiredFlows(config, checkpoint);
  const registered = nodeClasses([...selected].sort(), [compiled]).map((nodes) => {
    const { state, items } = divided(nodeView(compiled, nodes[0] ?? ''));
    return { nodes, items, of: required.register(state, items) };
  });
  for (const { nodes, items, of } of registered) {
    const guardrails = new Map(items.map(({ id, source }) => [id, guardrailOf(source.policy) ?? '']));
    const found = required.broken(of, (id) => isWanted(guardrails.get(id) ?? ''));
    const broken = items.flatMap(({ id, source }): BrokenItem[] => {
      const [guardrail, flows] = [guardrails.get(id), found.get(id)];
      return guardrail === undefined || flows === undefined ? [] : [{ guardrail, item: source.rule, flows }];
    });
    if (broken.length > 0) yield { nodes, broken };
  }
}

/** The rules that are enforced, and those that are made of Guardrails. */
function divided(state: NodeState): { readonly state: NodeState; readonly items: readonly CompiledRule[] } {
  const isItem = ({ source }: CompiledRule): boolean => guardrailOf(source.policy) !== null;
  return {
    state: { ...state, rules: state.rules.filter((rule) => !isItem(rule)) },
    items: state.rules.filter(isItem),
  };
}

/** Begins the names of these policies: no object of Kubernetes has such a name. */
const PREFIX = 'Guardrail/';

/**
 * Adds Guardrails as policies to the objects, so that `compile` resolves their Nodes and peers as
 * those of policies. The same Guardrail gives the same policies.
 */
export function withGuardrails(): (objects: ClusterObjects) => ClusterObjects {
  const policiesOf = memo(asPolicies);
  return (objects) => {
    if (objects.guardrails.length === 0) return objects;
    const added = objects.guardrails.flatMap((guardrail) => policiesOf(guardrail));
    return { ...objects, policies: [...objects.policies, ...added] };
  };
}

/** The Guardrail that a compiled policy is made of; null: it is a policy. */
export function guardrailOf(policy: string): string | null {
  return policy.startsWith(PREFIX) ? (policy.split('/')[1] ?? null) : null;
}

/**
 * One policy for each kind of traffic and direction. The names of its rules are the places of the
 * items, as in `mustAllow[0]`.
 */
function asPolicies({ apiGroup, name, uid, generation, spec }: Guardrail): ClusterNetworkPolicy[] {
  const { nodeSelector, mustAllow = [], mustDeny = [] } = spec;
  const items = [
    ...mustAllow.map((flow, i) => ({ flow, place: `mustAllow[${i}]`, action: 'Allow' as const })),
    ...mustDeny.map((flow, i) => ({ flow, place: `mustDeny[${i}]`, action: 'Drop' as const })),
  ];
  const policy = (traffic: PolicyTraffic): ClusterNetworkPolicy[] => {
    const of = (direction: Direction) =>
      items
        .filter(({ flow }) => flow.direction === direction && (flow.traffic ?? 'Host') === traffic)
        .map(({ flow, place, action }) => ({ ...peersAndPorts(flow), name: place, action }));
    const [ingress, egress] = [of('ingress'), of('egress')];
    if (ingress.length + egress.length === 0) return [];
    const rules = { appliedTo: [{ nodeSelector }], traffic, ingress, egress };
    return [
      {
        kind: 'ClusterNetworkPolicy',
        apiGroup,
        name: `${PREFIX}${name}/${traffic}`,
        uid,
        generation,
        spec: { priority: 1, ...rules },
      },
    ];
  };
  return [...policy('Host'), ...policy('NodePort')];
}

function peersAndPorts({ from, to, ports, protocols }: RequiredFlow) {
  return {
    ...present({ from, to, ports, protocols }),
  };
}
