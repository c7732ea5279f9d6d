import assert from 'node:assert/strict';
import fc from 'fast-check';
import { TreeIndexer } from '../../agent/render/index/tree.ts';
import { render, renderer } from '../../agent/render/render.ts';
import { type Chain, type Ruleset, targets } from '../../agent/render/ruleset.ts';
import type { NodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG, type DispatchMode } from '../../apis/config.ts';
import { BASELINE_PRIORITY } from '../../apis/order.ts';
import { addressSet, compiledRule, fromSet, stateOf } from '../fake/node-state.ts';
import { CROWD_KINDS, type CrowdKind } from '../generate/crowd.ts';
import { ALL_FEATURES, type Scenario, scenario } from '../generate/scenario.ts';
import { agree, count, type Seen } from './agree.ts';
import { flowsAtRules } from './flows-at-rules.ts';
import { toState } from './pipeline.ts';
import { check, flowCount, meet, missingOf } from './runs.ts';
import { violations } from './violation.ts';

const RULES = fc.constantFrom(5, 12, 30, 60, 120, 300);

/** The table that is translated for iptables (agent/render/index/tree.ts). */
describe('port tree', function () {
  this.timeout(0);

  const shapes: Seen = new Map();
  const scenarios = (kind: CrowdKind) =>
    RULES.chain((rules) =>
      scenario({ size: 8, flows: flowCount(100), features: ALL_FEATURES, crowd: { rules, kind } }),
    );
  const judge = (drawn: Scenario): void => {
    const aimed = flowsAtRules(toState(drawn.objects, drawn.node, drawn.names), flowCount(100), 1);
    const flows = [...drawn.flows, ...aimed];
    const { rulesets, state } = agree({ ...drawn, flows }, new Map(), treeAndList);
    const { indexed: tree } = rulesets;
    assert.deepEqual(violations(withBuiltIn(tree), state.rules), []);
    assert.equal(tree.maps.size, 0);
    for (const shape of shapesOf(tree)) count(shapes, shape);
  };

  for (const kind of CROWD_KINDS)
    it(`for rules of the kind ${kind}: oracle, explain, tree and list agree`, function () {
      check(this, 20, scenarios(kind), judge);
    });

  it('for rules of all kinds has every shape', function () {
    const anyKind = fc.constantFrom(...CROWD_KINDS).chain(scenarios);
    const expected = ['tree', 'chain below a chain', 'two indexes in a row'];
    meet(this, 140, anyKind, judge, missingOf(shapes, expected, 5));
  });
});

describe('port trees of two successive indexes', () => {
  it('share the nesting limit of chains', () => {
    const nobody = addressSet('x');
    const of = (action: 'Reject' | 'Pass', tierPriority: number) =>
      Array.from({ length: 1000 }, (_, i) =>
        compiledRule(`${action}${i}`, {
          services: [{ protocol: 'tcp', ports: [60 * i, 60 * i] }],
          ...(i % 2 === 0 ? { peers: fromSet('x') } : {}),
          log: { label: '' },
          action,
          tierPriority,
          source: { ruleIndex: i, policy: action },
        }),
      );
    const { addressSets, ...state } = stateOf([...of('Pass', 250), ...of('Reject', BASELINE_PRIORITY)]);
    const full = { ...state, addressSets: new Map([...addressSets, [nobody.id, nobody]]) };
    for (const canLog of [true, false]) {
      const tree = renderer(DEFAULT_CONFIG, canLog, new TreeIndexer())(full);
      assert.deepEqual(violations(withBuiltIn(tree), full.rules), []);
      const shapes = new Set(shapesOf(tree));
      for (const shape of ['tree', 'two indexes in a row'])
        assert.ok(shapes.has(shape), `${shape} ${canLog}`);
    }
  });
});

function treeAndList(state: NodeState, config: Config): Record<DispatchMode, Ruleset> {
  return {
    indexed: renderer(config, true, new TreeIndexer())(state),
    linear: render(state, { ...config, dispatch: 'linear' }),
  };
}

/**
 * With each base chain called by a chain more, as by INPUT in iptables: to see whether the chains
 * still lead to each other no deeper than the kernel allows.
 */
function withBuiltIn(ruleset: Ruleset): Ruleset {
  const chains = [...ruleset.chains.values()].flatMap((chain): Chain[] => {
    if (chain.base === null) return [chain];
    const statement = { kind: 'jump', chain: chain.name } as const;
    const rules = [{ matches: [], counter: false, statement, comment: null }];
    return [
      { ...chain, name: `builtin-${chain.name}`, rules },
      { ...chain, base: null },
    ];
  });
  return { ...ruleset, chains: new Map(chains.map((chain) => [chain.name, chain])) };
}

function* shapesOf({ chains }: Ruleset): Generator<string> {
  const isTree = (name: string): boolean => /-tree-/.test(name);
  for (const chain of chains.values()) {
    if (
      chain.rules.some(({ matches }) => matches.some(({ match }) => match === 'port')) &&
      isTree(chain.name)
    )
      yield 'tree';
    if (isTree(chain.name) && chain.rules.some(({ statement }) => targets(statement).some(isTree)))
      yield 'chain below a chain';
    if (
      chain.rules.filter(({ statement }) => statement.kind === 'jump' && isTree(statement.chain)).length > 1
    )
      yield 'trees in a row';
    if (/^(ingress|egress).*-baseline-tcp$/.test(chain.name)) yield 'two indexes in a row';
  }
}
