import assert from 'node:assert/strict';
import { compiledRule } from '../test/fake/node-state.ts';
import type { RulePeer } from './compiled.ts';
import { toCompiledRule, toWrittenRule, type WrittenRule } from './wire.ts';

type Lists = Pick<WrittenRule, 'addressSets' | 'interfaceGroups' | 'serviceSets'>;

/**
 * The form of state files and of the stream must stay: agents and controllers are upgraded apart.
 */
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

  it('has what older agents may do without in its source, where they look for nothing', () => {
    const rule = compiledRule('r', { source: { established: 'Recheck' } });
    const { source, ...rest } = toWrittenRule(rule);
    assert.equal(source.established, 'Recheck');
    assert.ok(!JSON.stringify(rest).includes('Recheck'));
    assert.deepEqual(toCompiledRule(toWrittenRule(rule)), rule);
    const newer = { ...source, later: 1 } as typeof source;
    assert.equal(toCompiledRule({ ...toWrittenRule(rule), source: newer }).unsupported, undefined);
  });

  it('has protocols by number, with a group', () => {
    const rule = compiledRule('r', { services: [{ protocol: 112, group: 'ff02::12' }, { protocol: 255 }] });
    assert.deepEqual(toCompiledRule(JSON.parse(JSON.stringify(toWrittenRule(rule)))), rule);
  });

  it('names what a newer version wrote, and keeps it for a later one', () => {
    const written = toWrittenRule(compiledRule('r', { services: [{ protocol: 'tcp', ports: [1, 2] }] }));
    for (const [more, unsupported] of [
      [{ users: ['a'] }, 'field "users"'],
      [{ action: 'Delay' }, 'action "Delay"'],
      [{ mode: 'Dry' }, 'mode "Dry"'],
      [{ traffic: 'Pod' }, 'traffic "Pod"'],
      [{ services: [{ protocol: 'gre' }] }, 'protocol "gre"'],
      [{ services: [{ protocol: 'tcp', flags: 'syn' }] }, 'field "flags" of a port match'],
      [{ services: [{ protocol: 112, type: 1 }] }, 'field "type" of a port match'],
      [{ services: [{ protocol: 1.5 }] }, 'protocol 1.5'],
    ] as const) {
      const newer = { ...written, ...more } as unknown as WrittenRule;
      const read = toCompiledRule(newer);
      assert.deepEqual(read.unsupported, [unsupported]);
      assert.deepEqual({ ...toWrittenRule(read) }, newer);
      assert.deepEqual(toCompiledRule(toWrittenRule(read)), read);
    }
  });
});
