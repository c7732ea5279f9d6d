import { render } from '../../agent/render/render.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { NodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { policy, type Rule } from '../kernel/manifests.ts';
import { toState } from '../properties/pipeline.ts';

/** What the Node `node-0` must enforce, in few words, for tests of what enforces it. */
export function nodeState(...objects: readonly object[]): NodeState {
  return toState([NODE, ...objects], 'node-0');
}

export function rulesetOf(objects: readonly object[], config: Config = DEFAULT_CONFIG): Ruleset {
  return render(nodeState(...objects), config);
}

/** A policy of ingress rules with priority 5. */
export function ingress(name: string, ...rules: readonly Rule[]): object {
  return policy(name, { ingress: rules });
}

/** A policy of one rule that closes TCP ports. */
export function closing(name: string, ...ports: readonly number[]): object {
  const rule = {
    name: 'close',
    action: 'Drop',
    ports: ports.map((port) => ({ protocol: 'TCP', port })),
  } as const;
  return ingress(name, rule);
}

/** Labelled `app`; its addresses are members of every set whose selector is that. */
export function pod(app: string, ...addresses: readonly string[]): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `${app}-${addresses.join('-').replaceAll(/[.:]/g, '-')}`,
      namespace: 'default',
      labels: { app },
    },
    status: { podIPs: addresses.map((ip) => ({ ip })) },
  };
}

export function fromPods(app: string): object {
  return { podSelector: { matchLabels: { app } } };
}

const NODE = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'node-0', labels: {} },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
};
