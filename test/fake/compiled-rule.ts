import type { AddressSet, CompiledRule, NodeState, RulePeer } from '../../apis/compiled.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';

/** Values of stage 2 in few words, for tests of what comes after it. */

type RuleChanges = Partial<Omit<CompiledRule, 'source'>> & {
  readonly source?: Partial<CompiledRule['source']>;
};

/** Rule `name` of policy `p`: an ingress rule that drops everything, save for what is said. */
export function compiledRule(name: string, { source, ...changes }: RuleChanges = {}): CompiledRule {
  return {
    id: name,
    source: {
      apiGroup: 'nodewall.io',
      policy: 'p',
      uid: '',
      generation: 0,
      direction: 'ingress',
      ruleIndex: 0,
      rule: name,
      ...source,
    },
    tier: 'application',
    tierPriority: 250,
    priority: 5,
    action: 'Drop',
    mode: 'Enforce',
    traffic: 'Host',
    peers: [{ kind: 'any' }],
    services: [],
    log: null,
    ...changes,
  };
}

/** The addresses of one AddressSet as peers. */
export function fromSet(set: string): readonly RulePeer[] {
  return [{ kind: 'addresses', set }];
}

export function addressSet(id: string, changes: Partial<AddressSet> = {}): AddressSet {
  return { id, description: id, dynamic: true, names: [], members: toMemberSet([], []), ...changes };
}

/** A node with these rules; its AddressSet of all nodes is empty. */
export function stateOf(rules: readonly CompiledRule[], changes: Partial<NodeState> = {}): NodeState {
  const nodes = addressSet('nodes', { description: 'nodes {}' });
  return {
    node: 'node-0',
    rules,
    addressSets: new Map([[nodes.id, nodes]]),
    serviceSets: new Map(),
    allNodes: nodes.id,
    controllers: '',
    apiServerPorts: [],
    nodeAddresses: [],
    ...changes,
  };
}
