import assert from 'node:assert/strict';
import { NODE_NAME } from '../../perf/generate/cluster.ts';
import { KIND_TITLES, KINDS, ruleSet } from '../../perf/generate/kinds.ts';
import { clusterObjects } from '../../perf/generate/ruleset.ts';
import { agree, type Seen } from './agree.ts';
import { flowsAtRules } from './flows-at-rules.ts';
import { indexSize, ownSize } from './index-size.ts';
import { toState } from './pipeline.ts';
import { cases, flowCount } from './runs.ts';
import { violations } from './violation.ts';

/**
 * The kinds of rule sets that the benchmarks measure: the index is right for each, and keeps to its
 * share of memory.
 */
describe('each kind of rule set', function () {
  this.timeout(0);

  for (const kind of KINDS) {
    for (const count of [200, 1000]) {
      it(`${KIND_TITLES[kind]}: ${count} rules`, () => {
        const objects = clusterObjects(ruleSet(kind, count));
        const written = { objects, node: NODE_NAME, config: {}, names: {} };
        const seed = process.env.NODEWALL_SEED ?? count;
        const flows = flowsAtRules(toState(objects, NODE_NAME), flowCount(cases(300)), seed);
        const seen: Seen = new Map();
        const { rulesets, state, traces } = agree({ ...written, flows }, seen);
        assert.deepEqual(violations(rulesets.indexed, state.rules), []);
        const size = indexSize(rulesets.indexed);
        const most = 8 * ownSize(state);
        assert.ok(size.elements + size.rules <= most, `${size.elements} + ${size.rules}, at most ${most}`);
        const wasted = traces.map(({ indexed }) => indexed.tried - indexed.counted.length);
        const worst = Math.max(...wasted);
        assert.ok(worst <= MOST_WASTED, `a packet tries ${worst} rules that don't match it`);
        for (const verdict of ['Allow', 'Drop', 'Reject']) {
          assert.ok((seen.get(`kernel ${verdict} rule`) ?? 0) > 0, JSON.stringify([...seen]));
        }
      });
    }
  }
});

/**
 * Rules that a packet tries and that don't match it; what the index can't look up (source ports)
 * among them.
 */
const MOST_WASTED = 12;
