import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { EgressPolicyName } from '../../apis/egress/node-egress.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { EGRESS_RULES } from './egress-rules.ts';

const POLICY: EgressPolicyName = {
  kind: 'EgressPolicy',
  apiGroup: 'nodewall.io',
  namespace: 'shop',
  name: 'bank',
};

describe('egress gateways as an extension of the rules', () => {
  it('add nothing to a node that has none', () => {
    const rules = EGRESS_RULES.renderer(DEFAULT_CONFIG)({});
    const { exempt, ...parts } = rules;
    assert.deepEqual([...Object.values(parts), ...Object.values(exempt)].flat(), []);
    assert.deepEqual([EGRESS_RULES.tables({}), EGRESS_RULES.countIds({})], [[], []]);
  });

  it('exempt the tunnel in each direction once the node has a part, even an empty one', () => {
    const render = EGRESS_RULES.renderer(DEFAULT_CONFIG);
    const { exempt } = render({ egress: fakeNodeEgress() });
    for (const direction of ['ingress', 'egress'] as const)
      assert.ok(exempt[direction].length > 0, direction);
    assert.notDeepEqual(exempt.ingress, exempt.egress);
  });

  it('have a table of their own for floating IPv4 addresses alone', () => {
    const tables = (pool: string) =>
      EGRESS_RULES.tables({ egress: fakeNodeEgress({ floating: toMemberSet([], [pool]) }) });
    assert.deepEqual(tables('2001:db8::1'), []);
    const [table, ...rest] = tables('192.0.2.1');
    assert.deepEqual([table?.family, table?.name, rest], ['arp', 'nodewall', []]);
    assert.match(table?.text ?? '', /^table arp nodewall \{\n[\s\S]*192\.0\.2\.1/);
  });

  it('count by policy and by the reason of a drop', () => {
    const outcome = {
      id: 'o',
      policy: POLICY,
      audited: [],
      action: { kind: 'drop', reason: 'not-ready' },
    } as const;
    const ids = EGRESS_RULES.countIds({ egress: fakeNodeEgress({ outcomes: new Map([['o', outcome]]) }) });
    assert.ok(ids.includes('egress-policy EgressPolicy shop/bank'));
    assert.ok(ids.includes('egress-drop not-ready'));
  });
});
