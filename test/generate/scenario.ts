import fc from 'fast-check';
import { stringify } from 'yaml';
import type { OracleConfig } from '../oracle/config.ts';
import type { Flow } from '../oracle/flow.ts';
import type { AddressPlan } from './address.ts';
import { addressesOfNode, knownAddresses, toFailsafeAims, toRuleAims } from './aim.ts';
import { cluster, nodeUnderTest } from './cluster.ts';
import { config } from './config.ts';
import { flow } from './flow.ts';
import { policies } from './policy.ts';

export type { AddressPair, AddressPlan } from './address.ts';

/** A whole case: manifests in any order, the Node to look from, the configuration, and flows to judge. */
export interface Scenario {
  objects: object[];
  node: string;
  config: OracleConfig;
  flows: Flow[];
}

/** How large a scenario is, and whether its flows must be sendable. */
export interface ScenarioOptions {
  /** Policies at most, half of it at least; the cluster grows with it, up to 300 pods. Default 8. */
  size?: number;
  /** Number of flows. Default 30. */
  flows?: number;
  /** For kernel tests: where addresses come from. */
  plan?: AddressPlan | undefined;
}

/** Random scenarios; every object in them is valid. */
export function scenario(options: ScenarioOptions = {}): fc.Arbitrary<Scenario> {
  const { size = 8, flows = 30, plan } = options;
  const parts = fc.record({
    cluster: cluster(Math.min(300, size * 2), plan),
    rules: policies(size, plan),
    config: config(plan),
  });
  return parts.chain(({ cluster: members, rules, config: drawn }) => {
    const { nodes, namespaces, pods } = members;
    const objects = [...nodes, ...namespaces, ...pods, ...rules.tiers, ...rules.policies];
    const targets = {
      ruleAims: toRuleAims(objects, rules.policies),
      failsafeAims: toFailsafeAims(objects, drawn),
      own: addressesOfNode(objects, nodeUnderTest),
      known: knownAddresses(objects),
      plan,
    };
    return fc.record({
      objects: shuffled<object>(objects),
      node: fc.constant(nodeUnderTest),
      config: fc.constant(drawn),
      flows: fc.array(flow(targets), { minLength: flows, maxLength: flows }),
    });
  });
}

/** One scenario outside fast-check: the same for the same arguments. */
export function sampleScenario(seed: number, size: number, plan?: AddressPlan, flows?: number): Scenario {
  const options = flows === undefined ? { size, plan } : { size, plan, flows };
  const [sample] = fc.sample(fc.noBias(scenario(options)), { seed, numRuns: 1 });
  if (sample === undefined) throw new Error('fast-check drew nothing');
  return sample;
}

/** The objects as one multi-document YAML text. */
export function objectsToYaml(objects: readonly object[]): string {
  return objects.map((object) => stringify(object, { aliasDuplicateObjects: false })).join('---\n');
}

function shuffled<T>(list: T[]): fc.Arbitrary<T[]> {
  return fc.shuffledSubarray(list, { minLength: list.length, maxLength: list.length });
}
