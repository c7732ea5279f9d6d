import type { Compiled, CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { type BrokenFlows, RequiredFlows } from '../../apis/difference/required-flows.ts';
import { witnessOf } from '../../apis/difference/witness.ts';
import type { Violation } from '../../apis/guardrail.ts';
import { addToList } from '../../lib/sharing/list-map.ts';
import { nodeClasses } from '../difference/node-classes.ts';
import { nodeView } from '../publish/node-view.ts';
import { guardrailOf } from './as-policies.ts';

/** Flows of one item that are broken on some nodes. */
interface BrokenItem {
  readonly guardrail: string;
  readonly item: string;
  readonly flows: readonly BrokenFlows[];
}

export interface CheckOptions {
  readonly config: Config;
  /** The most violations of each Guardrail; absent: all. */
  readonly most?: number;
}

/**
 * The violations of Guardrails in a compiled state of `withGuardrails`, by name of the Guardrail:
 * one for each Node and item, by node name. Guardrails that hold are left out. Nodes with the same
 * rules are checked once. Throws if a rule names a link group that is not in the configuration.
 */
export function checkGuardrails(
  compiled: Compiled,
  { config, most = Number.POSITIVE_INFINITY }: CheckOptions,
): ReadonlyMap<string, readonly Violation[]> {
  const selected = new Set<string>();
  for (const { name, spans } of compiled.policies) {
    if (guardrailOf(name) !== null) for (const span of spans) for (const node of span) selected.add(node);
  }
  const required = new RequiredFlows(config);
  const registered = nodeClasses([...selected], [compiled]).map((nodes) => {
    const { state, items } = divided(nodeView(compiled, nodes[0] ?? ''));
    return { nodes, items, of: required.register(state, items) };
  });
  const brokenAt = new Map<string, readonly BrokenItem[]>();
  for (const { nodes, items, of } of registered) {
    const found = required.broken(of);
    const broken = items.flatMap(({ id, source }): BrokenItem[] => {
      const [guardrail, flows] = [guardrailOf(source.policy), found.get(id)];
      return guardrail === null || flows === undefined ? [] : [{ guardrail, item: source.rule, flows }];
    });
    if (broken.length > 0) for (const node of nodes) brokenAt.set(node, broken);
  }
  const violations = new Map<string, Violation[]>();
  for (const node of [...brokenAt.keys()].sort()) {
    for (const { guardrail, item, flows } of brokenAt.get(node) ?? []) {
      if ((violations.get(guardrail)?.length ?? 0) >= most) continue;
      const witness = witnessOf(flows, compiled.nodeAddresses.get(node) ?? []);
      if (witness !== null) addToList(violations, guardrail, { node, item, ...witness });
    }
  }
  return violations;
}

/** The rules that are enforced, and those that are made of Guardrails. */
function divided(state: NodeState): { readonly state: NodeState; readonly items: readonly CompiledRule[] } {
  const isItem = ({ source }: CompiledRule): boolean => guardrailOf(source.policy) !== null;
  return {
    state: { ...state, rules: state.rules.filter((rule) => !isItem(rule)) },
    items: state.rules.filter(isItem),
  };
}
