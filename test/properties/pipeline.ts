import { stringify } from 'yaml';
import { render } from '../../agent/render/render.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { Compiled, NodeState } from '../../apis/compiled.ts';
import type { Config, DispatchMode } from '../../apis/config.ts';
import { parseConfig } from '../../apis/config-file.ts';
import { fixedNames, nameResolver } from '../../apis/names.ts';
import type { ClusterObject, ClusterObjects } from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { compile } from '../../controller/compile/compile.ts';
import { withAcceptedAddresses } from '../../controller/index/accepted-addresses.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import type { EgressConfig } from '../oracle/egress/egress-cluster.ts';
import type { OracleConfig } from '../oracle/flow.ts';

/**
 * The stages between manifests and ruleset, for scenarios: their objects are all valid, so any
 * error is a failure.
 */

/** @param known what was validated before, which then gives the same objects again */
export function toClusterObjects(
  raw: readonly object[],
  known: WeakMap<object, ClusterObject | null> = new WeakMap(),
): ClusterObjects {
  const objects = raw.flatMap((one) => {
    const object = known.get(one) ?? validated(one);
    known.set(one, object);
    return object ?? [];
  });
  const ofKind = <K extends ClusterObject['kind']>(kind: K) =>
    objects.filter((object): object is Extract<ClusterObject, { kind: K }> => object.kind === kind);
  return withAcceptedAddresses({
    nodes: ofKind('Node'),
    namespaces: ofKind('Namespace'),
    pods: ofKind('Pod'),
    services: ofKind('Service'),
    endpointSlices: ofKind('EndpointSlice'),
    groups: ofKind('ClusterGroup'),
    tiers: ofKind('Tier'),
    policies: ofKind('ClusterNetworkPolicy'),
    guardrails: ofKind('Guardrail'),
    egressGateways: ofKind('EgressGateway'),
    egressPolicies: [],
    insideNetworks: [],
  });
}

function validated(one: object): ClusterObject | null {
  // With the Nodes of pods.
  const isPod = 'kind' in one && one.kind === 'Pod';
  const { object, problems } = validateObject(one, { egress: isPod });
  const errors = problems.filter(({ severity }) => severity === 'error');
  if (errors.length > 0) throw new Error(`rejected: ${JSON.stringify(errors)}\n${JSON.stringify(one)}`);
  return object;
}

/** The oracle reads the configuration as it is written, nodewall as it is parsed. */
export function toConfig(written: OracleConfig | EgressConfig): Config {
  const { config, problems } = parseConfig(stringify(written), 'config.yaml');
  if (config === null) throw new Error(`rejected: ${JSON.stringify(problems)}\n${JSON.stringify(written)}`);
  return config;
}

/** @param names what fqdn peers resolve to, as in `--names` */
export function toState(
  objects: readonly object[],
  node: string,
  names: Readonly<Record<string, readonly string[]>> = {},
): NodeState {
  return resolver(names)(nodeView(compile(toClusterObjects(objects)), node));
}

/** Adds what fqdn peers resolve to, to states of one cluster. */
export function resolver(
  names: Readonly<Record<string, readonly string[]>>,
): (state: NodeState) => NodeState {
  const lower = Object.entries(names).map(([name, addresses]) => {
    return [name.toLowerCase().replace(/\.$/, ''), addresses] as const;
  });
  const [resolve, table] = [nameResolver(), fixedNames(new Map(lower))];
  return (state) => resolve(state, table);
}

export function renderBoth(state: NodeState, config: Config): Record<DispatchMode, Ruleset> {
  return {
    indexed: render(state, { ...config, dispatch: 'indexed' }),
    linear: render(state, { ...config, dispatch: 'linear' }),
  };
}

/**
 * With Maps in the place of whatever else behaves like one: `assert.deepEqual` compares the entries
 * of no others.
 */
export function plainCompiled(compiled: Compiled): Compiled {
  return withPlainSets(compiled);
}

/** The same of one node's state. */
export function plainState(state: NodeState): NodeState {
  return withPlainSets(state);
}

function withPlainSets<T extends Pick<Compiled, 'addressSets' | 'serviceSets'>>(value: T): T {
  const { addressSets, serviceSets } = value;
  return { ...value, addressSets: new Map(addressSets), serviceSets: new Map(serviceSets) };
}
