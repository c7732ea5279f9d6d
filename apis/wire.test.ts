import assert from 'node:assert/strict';
import { compiledRule } from '../test/fake/compiled-rule.ts';
import type { RulePeer } from './rule-peer.ts';
import { toCompiledRule, toWrittenRule, type WrittenRule } from './wire.ts';

type Lists = Pick<WrittenRule, 'addressSets' | 'interfaceGroups' | 'serviceSets'>;

/** The form of state files and of the stream must stay: agents and controllers are upgraded apart. */
const FORMS: readonly (readonly [readonly RulePeer[], Lists])[] = [
  [[{ kind: 'any' }], { addressSets: [], interfaceGroups: [], serviceSets: [] }],
  [[{ kind: 'addresses', set: 'a' }], { addressSets: ['a'], interfaceGroups: [], serviceSets: [] }],
  [[{ kind: 'services', set: 's' }], { addressSets: [], interfaceGroups: [], serviceSets: ['s'] }],
  [
    [
      { kind: 'interfaces', groups: [4, 'pods'] },
      { kind: 'addresses', set: 'a' },
    ],
    { addressSets: ['a'], interfaceGroups: [4, 'pods'], serviceSets: [] },
  ],
];

describe('a written rule', () => {
  for (const [peers, lists] of FORMS) {
    it(`has lists for ${peers.map(({ kind }) => kind).join(' and ')}, and is read back`, () => {
      const rule = compiledRule('r', { peers });
      const { addressSets, interfaceGroups, serviceSets, ...rest } = toWrittenRule(rule);
      assert.deepEqual({ addressSets, interfaceGroups, serviceSets }, lists);
      assert.ok(!('peers' in rest));
      const read = toCompiledRule(toWrittenRule(rule));
      assert.equal(JSON.stringify(read), JSON.stringify(rule), 'the same fields in the same order');
    });
  }
});
