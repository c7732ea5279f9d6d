/** Rule sets that deny a flood by their last rule, and let a client in by the one before. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Namespace } from '../../test/netns/namespace.ts';
import { KIND_TITLES, type Kind, ruleSet } from '../generate/kinds.ts';
import { type GeneratedRule, writeRuleSet } from '../generate/ruleset.ts';
import { agentCommand } from '../measure/agent.ts';

/** The client's connections. */
export const ALLOWED = ruleSet('ports', 0).connection;

export interface DenyingRules {
  readonly kind: Extract<Kind, 'ports' | 'onePort' | 'sources'>;
  /** The number of rules. */
  readonly size: number;
  /** Of the flood, which the rules have as well, where they name one. */
  readonly protocol: 'udp' | 'syn';
}

export interface PreparedRules extends DenyingRules {
  readonly title: string;
  /** By nodewall; `bare`: with nothing before the rules that the configuration can turn off. */
  load(node: Namespace, frame?: 'whole' | 'bare'): Promise<void>;
}

/** Everything, from everywhere. */
const DENY: GeneratedRule = { action: 'Drop', peer: null, protocol: null, ports: null, sourcePorts: null };

const BARE = {
  interfaceGroupFile: '',
  antiSpoofing: false,
  failsafe: { ingress: [], egress: [] },
  exemptions: {
    loopback: false,
    neighborDiscovery: false,
    multicastListener: false,
    dhcpClient: false,
    localPods: false,
  },
};

/** Writes them below `folder`. */
export async function prepareDenying(wanted: DenyingRules, folder: string): Promise<PreparedRules> {
  const { kind, size, protocol } = wanted;
  const own = join(folder, `${kind}-${size}-${protocol}`);
  const manifests = join(own, 'manifests');
  const set = ruleSet(kind, size - 1);
  const others = set.rules.slice(0, -1);
  const rules = [...(protocol === 'udp' ? others.map(overUdp) : others), ...set.rules.slice(-1), DENY];
  await writeRuleSet(manifests, { ...set, rules });
  const config = join(own, 'bare.yaml');
  await writeFile(config, JSON.stringify(BARE));
  let loads = 0;
  return {
    ...wanted,
    title: `nodewall, ${size === 1 ? '1 rule' : `${size.toLocaleString('en')} rules, ${KIND_TITLES[kind]}`}`,
    async load(node, frame = 'whole') {
      const stateDir = join(own, `state-${loads++}`);
      await mkdir(stateDir, { recursive: true });
      const options = ['--once', ...(frame === 'bare' ? ['--config', config] : [])];
      await node.run(agentCommand({ manifests, stateDir, options }), { timeout: 180_000 });
    },
  };
}

function overUdp(rule: GeneratedRule): GeneratedRule {
  return rule.protocol === 'TCP' ? { ...rule, protocol: 'UDP' } : rule;
}
