import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { EgressConfig } from '../../apis/egress/config.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { ClusterObject } from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { compileEgress, type EgressInput } from '../../controller/egress/compile-egress.ts';
import { nodeEgressCompiler } from '../../controller/egress/node-egress.ts';
import type { EgressScenario } from '../generate/egress/egress-scenario.ts';

/** What each node does for a scenario. */
export function toNodeEgress({ objects, config }: EgressScenario): ReadonlyMap<string, NodeEgress> {
  return nodeEgressCompiler()(compileEgress(toEgressInput(objects), toEgressConfig(config)));
}

/** Stage 1 for manifests: what is wrong in itself is left out. */
export function toEgressInput(raw: readonly object[]): EgressInput {
  const found = raw.flatMap((one) => validateObject(one, { egress: true }).object ?? []);
  const identity = ({ kind, name, ...one }: ClusterObject): string =>
    [kind, 'apiGroup' in one ? one.apiGroup : '', 'namespace' in one ? one.namespace : '', name].join('/');
  const objects = [...new Map(found.map((one) => [identity(one), one])).values()];
  const ofKind = <K extends ClusterObject['kind']>(...kinds: K[]) =>
    objects.filter((one): one is Extract<ClusterObject, { kind: K }> =>
      kinds.some((kind) => kind === one.kind),
    );
  return {
    nodes: ofKind('Node'),
    namespaces: ofKind('Namespace'),
    pods: ofKind('Pod'),
    egressGateways: ofKind('EgressGateway'),
    egressPolicies: ofKind('EgressPolicy', 'ClusterEgressPolicy'),
    insideNetworks: ofKind('ServiceCIDR', 'IPPool', 'EgressClusterInfo'),
  };
}

/** The configuration with its defaults. */
export function toEgressConfig({ egress = {} }: EgressScenario['config']): EgressConfig {
  return { ...DEFAULT_CONFIG.egress, ...withoutUndefined(egress) };
}

function withoutUndefined(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined));
}
