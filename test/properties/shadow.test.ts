import assert from 'node:assert/strict';
import { withApiServer } from '../../apis/failsafe.ts';
import { shadowWarnings } from '../../controller/webhook/shadow.ts';
import { ALL_FEATURES, scenario } from '../generate/scenario.ts';
import { toCluster } from '../oracle/cluster.ts';
import { oracle } from '../oracle/oracle.ts';
import { flowsAtRules } from './flows-at-rules.ts';
import { toClusterObjects, toConfig, toState } from './pipeline.ts';
import { check, flowCount } from './runs.ts';

describe('rules that the webhook reports as unreachable', function () {
  this.timeout(0);

  it('decide no flow in the oracle', function () {
    const seen = { hidden: 0, flows: 0 };
    check(this, 150, scenario({ size: 12, flows: flowCount(40), features: ALL_FEATURES }), (drawn) => {
      const related = toClusterObjects(drawn.objects);
      const failsafe = withApiServer(toConfig(drawn.config).failsafe, related.endpointSlices);
      const names = Map.groupBy(related.policies, ({ name }) => name);
      const hidden = new Map<string, string>();
      for (const policy of related.policies) {
        // An answer doesn't tell two of one name apart.
        if (names.get(policy.name)?.length !== 1) continue;
        for (const warning of shadowWarnings(policy, related, failsafe)) {
          const [, direction, index] = /^spec\.(\w+)\[(\d+)\]/.exec(warning) ?? assert.fail(warning);
          hidden.set(`${policy.name} ${direction} ${index}`, warning);
        }
      }
      if (hidden.size === 0) return;
      seen.hidden += hidden.size;
      const judge = oracle({ ...drawn, cluster: toCluster(drawn.objects) } as never);
      const state = toState(drawn.objects, drawn.node, drawn.names);
      for (const flow of [...drawn.flows, ...flowsAtRules(state, flowCount(200), drawn.flows.length)]) {
        const { policy, ruleIndex } = judge(flow);
        seen.flows++;
        const warning = hidden.get(`${policy} ${flow.direction} ${ruleIndex}`);
        assert.equal(
          warning,
          undefined,
          JSON.stringify({
            warning,
            policy,
            ruleIndex,
            flow,
            objects: related.policies.filter(({ name }) => warning?.includes(`${name}/`) || name === policy),
          }),
        );
      }
    });
    assert.ok(seen.hidden >= 20 && seen.flows >= 2000, JSON.stringify(seen));
  });
});
