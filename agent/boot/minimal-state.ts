import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config, FailsafeEntry } from '../../apis/config.ts';

/**
 * The rules of a machine at boot whose saved ones cannot be loaded: it lets in the exemptions, the
 * failsafe list, and SSH from `boot.ssh`. They do not judge traffic that the machine sends.
 */
export function minimalState(
  { node, addressSets, allNodes, controllers, apiServerPorts, nodeAddresses }: NodeState,
  config: Config,
): { readonly state: NodeState; readonly config: Config } {
  const { failsafe, boot } = config;
  const ssh: FailsafeEntry[] =
    boot.ssh.length === 0 ? [] : [{ protocol: 'tcp', ports: [22, 22], peers: boot.ssh }];
  const used = [allNodes, controllers].flatMap((id) => {
    const set = addressSets.get(id);
    return set === undefined ? [] : [[id, set] as const];
  });
  return {
    state: {
      node,
      allNodes,
      controllers,
      apiServerPorts,
      nodeAddresses,
      rules: [CLOSE],
      addressSets: new Map(used),
      serviceSets: new Map(),
    },
    config: { ...config, failsafe: { ...failsafe, ingress: [...failsafe.ingress, ...ssh] } },
  };
}

const CLOSE: CompiledRule = {
  id: 'boot-minimal',
  source: {
    apiGroup: 'nodewall.io',
    policy: 'boot-minimal',
    uid: '',
    generation: 0,
    direction: 'ingress',
    ruleIndex: 0,
    rule: 'close',
  },
  tier: '',
  tierPriority: 0,
  priority: 0,
  action: 'Drop',
  mode: 'Enforce',
  traffic: 'Host',
  peers: [{ kind: 'any' }],
  services: [],
  log: null,
};
