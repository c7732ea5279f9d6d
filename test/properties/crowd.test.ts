import assert from 'node:assert/strict';
import fc from 'fast-check';
import { CROWD_KINDS, type CrowdKind } from '../generate/crowd.ts';
import { ALL_FEATURES, type Scenario, scenario } from '../generate/scenario.ts';
import { agree, count, type Seen } from './agree.ts';
import { flowsAtRules } from './flows-at-rules.ts';
import { INDEX_PARTS, indexShape } from './index-size.ts';
import { toState } from './pipeline.ts';
import { check, flowCount, meet, missingOf } from './runs.ts';
import { candidates, violations } from './violation.ts';

/**
 * So many rules that can't match are tried at the end of a look-up (agent/render/index/plan.ts).
 */
const SHORT = 4;
const RULES = fc.constantFrom(30, 30, 60, 120, 300);

/** Many rules that have something in common: what an index by ports alone tries one by one. */
describe('many rules', function () {
  this.timeout(0);

  const parts: Seen = new Map();
  const scenarios = (kind: CrowdKind) =>
    RULES.chain((rules) =>
      scenario({ size: 8, flows: flowCount(100), features: ALL_FEATURES, crowd: { rules, kind } }),
    );
  const judge = (drawn: Scenario): void => {
    const aimed = flowsAtRules(toState(drawn.objects, drawn.node, drawn.names), flowCount(100), 1);
    const { rulesets, state, traces } = agree({ ...drawn, flows: [...drawn.flows, ...aimed] }, new Map());
    assert.deepEqual(violations(rulesets.indexed, state.rules), []);
    // Two indexes one behind the other have few levels each (agent/render/render.ts): there
    // lists may stay long.
    const areTwo = [...rulesets.indexed.chains.keys()].some((name) => name.endsWith('-baseline'));
    for (const { packet, indexed } of areTwo ? [] : traces) {
      const needed = candidates(state, packet, indexed.source);
      // Those of the baseline tier have an index of their own.
      const most = needed + SHORT * (indexed.lookUps + 2);
      assert.ok(
        indexed.tried <= most,
        `${indexed.tried} tried, ${needed} needed, ${indexed.lookUps} look-ups`,
      );
    }
    const shape = indexShape(rulesets.indexed);
    for (const part of INDEX_PARTS) if (shape[part] > 0) count(parts, part);
  };

  for (const kind of CROWD_KINDS)
    it(`of the kind ${kind}: oracle, explain and both rulesets agree`, function () {
      check(this, 10, scenarios(kind), judge);
    });

  it('of all kinds have every part of an index', function () {
    const anyKind = fc.constantFrom(...CROWD_KINDS).chain(scenarios);
    meet(this, 70, anyKind, judge, missingOf(parts, INDEX_PARTS, 5));
  });
});
