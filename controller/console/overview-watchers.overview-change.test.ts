import assert from 'node:assert/strict';
import type { Overview, OverviewNode, OverviewPolicy } from '../../apis/console.ts';
import { overviewLine } from './overview-watchers.ts';

const node = (name: string): OverviewNode => ({
  name,
  phase: 'Enforced',
  message: '',
  reported: null,
  version: null,
  dataplane: null,
});
const policy = (name: string, generation = 1): OverviewPolicy => ({
  apiGroup: 'nodewall.io',
  name,
  tier: 'application',
  priority: 5,
  mode: 'Enforce',
  traffic: 'Host',
  phase: 'Realized',
  message: '',
  generation,
  enforcedGeneration: generation,
  since: null,
  sinceAtLeast: null,
  changed: null,
  nodes: [[0, 1]],
  exceptions: [],
});
const BEFORE: Overview = {
  time: 'T1',
  revision: 'r1',
  isEnabled: true,
  remark: null,
  nodes: [node('a'), node('b')],
  policies: [policy('p'), policy('q')],
  rollouts: [],
  problems: [],
};

describe('a line of the watch', () => {
  const now = (changes: Partial<Overview>): Overview => ({
    ...BEFORE,
    time: 'T2',
    revision: 'r2',
    ...changes,
  });
  const [p, q] = BEFORE.policies as readonly [OverviewPolicy, OverviewPolicy];
  const [a] = BEFORE.nodes as readonly [OverviewNode];
  const head = { type: 'change', time: 'T2', revision: 'r2' };
  const order = (...names: readonly string[]): string[] => names.map((name) => `nodewall.io/${name}`);
  const edited = policy('q', 2);
  const off: OverviewNode = { ...node('b'), phase: 'Off' };
  const problems = [{ object: 'Node/b', phase: 'Off', message: '' }];

  it('is the whole at first, and where nodes are others', () => {
    assert.deepEqual(overviewLine(null, BEFORE), { type: 'overview', overview: BEFORE });
    const other = now({ nodes: [a, node('c')] });
    assert.deepEqual(overviewLine(BEFORE, other), { type: 'overview', overview: other });
  });

  it('is none where nothing changed but the time', () => {
    assert.equal(overviewLine(BEFORE, now({})), null);
    assert.equal(overviewLine(BEFORE, now({ nodes: [...BEFORE.nodes], policies: [p, q] })), null);
  });

  const cases: readonly [string, Partial<Overview>, object][] = [
    ['a policy that is edited', { policies: [p, edited] }, { policies: [edited] }],
    [
      'a policy that is added',
      { policies: [p, policy('x'), q] },
      { policies: [policy('x')], order: order('p', 'x', 'q') },
    ],
    ['a policy that is removed', { policies: [q] }, { order: order('q') }],
    ['policies that change places', { policies: [q, p] }, { order: order('q', 'p') }],
    ['a node', { nodes: [a, off] }, { nodes: [{ index: 1, node: off }] }],
    ['the gate', { isEnabled: false }, { isEnabled: false }],
    ['a remark', { remark: 'late' }, { remark: 'late' }],
    ['problems', { problems }, { problems }],
  ];
  for (const [what, changes, wanted] of cases) {
    it(`has ${what}`, () => {
      assert.deepEqual(overviewLine(BEFORE, now(changes)), { ...head, ...wanted });
    });
  }
});
