import assert from 'node:assert/strict';
import fc from 'fast-check';
import { compileEgress, type EgressInput } from '../../controller/egress/compile-egress.ts';
import { egressExplainer } from '../../controller/egress/decide.ts';
import { nodeEgressCompiler } from '../../controller/egress/node-egress.ts';
import { type EgressScenario, egressScenario } from '../generate/egress/egress-scenario.ts';
import type { Seen } from './agree.ts';
import { agreeOnEgress, toEgressInput } from './egress-agree.ts';
import { agreeOnNodes } from './egress-nodes.ts';
import { toConfig } from './pipeline.ts';
import { check, flowCount, missingOf } from './runs.ts';

describe('egress gateways', function () {
  this.timeout(0);

  it('have the answers of explain that the manifests permit', function () {
    const seen: Seen = new Map();
    check(
      this,
      200,
      egressScenario(8, flowCount(400)),
      (drawn) => void agreeOnEgress(drawn, seen),
      missingOf(seen, EXPECTED),
    );
  });

  it('have nodes on which packets come to the ends that explain says', function () {
    const seen: Seen = new Map();
    // Of a pod's node, host is nothing; no-address is rare.
    const expected = EXPECTED.filter((one) => !/Direct (host|no-)|no-address/.test(one));
    check(
      this,
      100,
      egressScenario(8, flowCount(300)),
      (drawn) => {
        const agreed = agreeOnEgress(drawn, new Map());
        agreeOnNodes(drawn, agreed, nodeEgressCompiler()(agreed.compiled), seen);
      },
      missingOf(seen, expected),
    );
  });

  it('have the same answers whatever the order of objects and their files', function () {
    const scenarios = egressScenario(8, flowCount(60));
    const cases = scenarios.chain((scenario) =>
      fc.record({
        scenario: fc.constant(scenario),
        objects: fc.shuffledSubarray([...scenario.objects], { minLength: scenario.objects.length }),
        files: fc.integer({ min: 1, max: 5 }),
      }),
    );
    check(this, 100, cases, ({ scenario, objects, files }) => {
      const one = answersOf(scenario, toEgressInput(scenario.objects));
      // Reading sorts the objects; what comes after it does not need that.
      const other = answersOf(scenario, reversed(toEgressInput(objects, files)));
      for (const [i, flow] of scenario.flows.entries())
        assert.deepEqual(other[i], one[i], JSON.stringify(flow));
    });
  });
});

function answersOf({ config, flows }: EgressScenario, input: EgressInput): object[] {
  const explain = egressExplainer(input, compileEgress(input, toConfig(config).egress));
  return flows.map((flow) => explain(flow));
}

function reversed(input: EgressInput): EgressInput {
  return {
    nodes: input.nodes.toReversed(),
    namespaces: input.namespaces.toReversed(),
    pods: input.pods.toReversed(),
    egressGateways: input.egressGateways.toReversed(),
    egressPolicies: input.egressPolicies.toReversed(),
    insideNetworks: input.insideNetworks.toReversed(),
  };
}

const EXPECTED = [
  ...['inside', 'host', 'no-policy', 'policy'].map((reason) => `Direct ${reason}`),
  ...['no-gateway', 'not-ready', 'no-family', 'no-address', 'unknown-pod', 'policy'].map(
    (reason) => `Drop ${reason}`,
  ),
  ...['no-gateway', 'no-family'].map((reason) => `Direct ${reason}`),
  'Gateway policy',
];
