import fc from 'fast-check';
import { stringify } from 'yaml';
import { toCluster } from '../oracle/cluster.ts';
import type { Flow, Names, OracleConfig } from '../oracle/flow.ts';
import type { GroupManifest, Manifest } from '../oracle/manifest.ts';
import type { AddressPlan } from './address.ts';
import { addressesOfNode, knownAddresses, toFailsafeAims, toRuleAims } from './aim.ts';
import { CURRENT_FEATURES, type Feature } from './choice.ts';
import { cluster, nodeUnderTest } from './cluster.ts';
import { config } from './config.ts';
import { type Crowd, crowdPolicies } from './crowd.ts';
import { clusterServices } from './endpoint.ts';
import { flow } from './flow.ts';
import { groups } from './group.ts';
import { names } from './peer.ts';
import { policies } from './policy.ts';

export type { AddressPair, AddressPlan } from './address.ts';
export type { Feature } from './choice.ts';
export { ALL_FEATURES, CURRENT_FEATURES } from './choice.ts';

/**
 * A whole case: manifests in any order, the Node to look from, the configuration, names, and flows
 * to judge.
 */
export interface Scenario {
  objects: object[];
  node: string;
  config: OracleConfig;
  /** What `--names` would give: the addresses that names resolve to. */
  names: Names;
  flows: Flow[];
}

/** How large a scenario is, and whether its flows must be sendable. */
interface ScenarioOptions {
  /**
   * Policies at most, half of it at least; the cluster grows with it, up to 300 pods. Default 8.
   */
  size?: number;
  /** Number of flows. Default 30. */
  flows?: number;
  /** For kernel tests: where addresses come from. */
  plan?: AddressPlan | undefined;
  /** Which forms of the language are drawn; default what the program can do so far. */
  features?: readonly Feature[];
  /** Many rules of one kind in the stead of few of any. */
  crowd?: Crowd;
}

/** Random scenarios; every object in them is valid. */
export function scenario(options: ScenarioOptions = {}): fc.Arbitrary<Scenario> {
  const { size = 8, flows = 30, plan, crowd } = options;
  const features = new Set(options.features ?? CURRENT_FEATURES);
  const isAny = (...wanted: Feature[]) => wanted.some((feature) => features.has(feature));
  const parts = fc.record({
    cluster: cluster(Math.min(300, size * 2), plan),
    services: isAny('group', 'toServices') ? clusterServices(plan) : fc.constant<Manifest[]>([]),
    groups: isAny('group', 'appliedToGroup') ? groups(plan) : fc.constant<GroupManifest[]>([]),
    config: config(plan),
    names: isAny('fqdn') ? names(plan) : fc.constant<Names>({}),
  });
  return parts.chain(({ cluster: members, services, ...drawn }) => {
    const { nodes, namespaces, pods } = members;
    const interfaceGroups = [
      ...['pods', 'clusternet', 'pods', 'clusternet', 8, 9, 0, 20],
      ...Object.keys(drawn.config.interfaceGroups ?? {}),
    ];
    const scope = { features, plan, groups: drawn.groups, interfaceGroups };
    const drawnPolicies = crowd === undefined ? policies(size, scope) : crowdPolicies(crowd, scope);
    return drawnPolicies.chain((rules) => {
      const cast = [...nodes, ...namespaces, ...pods, ...services, ...drawn.groups];
      const objects = [...cast, ...rules.tiers, ...rules.policies];
      const judged = toCluster(objects);
      const targets = {
        ruleAims:
          flows === 0
            ? []
            : toRuleAims({ ...drawn, objects, cluster: judged }, rules.policies, nodeUnderTest),
        failsafeAims: toFailsafeAims(judged, drawn.config),
        own: addressesOfNode(objects, nodeUnderTest),
        known: knownAddresses(judged),
        plan,
        features,
      };
      return fc.record({
        objects: shuffled<object>(objects),
        node: fc.constant(nodeUnderTest),
        config: fc.constant(drawn.config),
        names: fc.constant(drawn.names),
        flows: fc.array(flow(targets), { minLength: flows, maxLength: flows }),
      });
    });
  });
}

/** One scenario outside fast-check, of the default's forms: the same for the same arguments. */
export function sampleScenario(seed: number, size: number, plan?: AddressPlan, flows?: number): Scenario {
  return sample(seed, flows === undefined ? { size, plan } : { size, plan, flows });
}

/** One scenario outside fast-check, of any forms: the same for the same arguments. */
export function sample(seed: number, options: ScenarioOptions): Scenario {
  const [drawn] = fc.sample(fc.noBias(scenario(options)), { seed, numRuns: 1 });
  if (drawn === undefined) throw new Error('fast-check drew nothing');
  return drawn;
}

/** The objects as one multi-document YAML text. */
export function objectsToYaml(objects: readonly object[]): string {
  return objects.map((object) => stringify(object, { aliasDuplicateObjects: false })).join('---\n');
}

function shuffled<T>(list: T[]): fc.Arbitrary<T[]> {
  return fc.shuffledSubarray(list, { minLength: list.length, maxLength: list.length });
}
