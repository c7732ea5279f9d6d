import assert from 'node:assert/strict';
import type { Rule } from '../../apis/objects.ts';
import { ruleNames } from './rule-name.ts';

const spec = (ingress: Rule[], egress: Rule[] = []) => ({ priority: 1, ingress, egress });
const drop: Rule = { action: 'Drop', ports: [{ protocol: 'TCP', port: 80 }] };

describe('rulename', () => {
  it('is the rule’s own, or says direction and action', () => {
    const { ingress, egress } = ruleNames(spec([{ ...drop, name: 'mine' }, drop], [drop]));
    assert.equal(ingress[0], 'mine');
    assert.match(ingress[1] ?? '', /^ingress-drop-[0-9a-f]{7}$/);
    assert.match(egress[0] ?? '', /^egress-drop-[0-9a-f]{7}$/);
  });

  it('stays when the rule moves, or its fields are written in another order', () => {
    const [, second] = ruleNames(spec([{ action: 'Allow' }, drop])).ingress;
    const [first] = ruleNames(spec([{ ports: [{ port: 80, protocol: 'TCP' }], action: 'Drop' }])).ingress;
    assert.equal(first, second);
  });

  it('is unique: equal rules and taken names get a number', () => {
    const [name = ''] = ruleNames(spec([drop])).ingress;
    assert.deepEqual(ruleNames(spec([drop, drop, drop])).ingress, [name, `${name}-2`, `${name}-3`]);
    assert.deepEqual(ruleNames(spec([drop], [{ action: 'Allow', name }])).ingress, [`${name}-2`]);
  });
});
