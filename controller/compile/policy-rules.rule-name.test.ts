import assert from 'node:assert/strict';
import type { Rule } from '../../apis/objects.ts';
import { ruleNames } from './policy-rules.ts';

const spec = (ingress: Rule[], egress: Rule[] = []) => ({ priority: 1, ingress, egress });
const drop: Rule = { action: 'Drop', ports: [{ protocol: 'TCP', port: 80 }] };

describe('ruleNames', () => {
  it('uses the rule’s own name, or generates one of direction and action', () => {
    const { ingress, egress } = ruleNames(spec([{ ...drop, name: 'mine' }, drop], [drop]));
    assert.equal(ingress[0], 'mine');
    assert.match(ingress[1] ?? '', /^ingress-drop-[0-9a-f]{7}$/);
    assert.match(egress[0] ?? '', /^egress-drop-[0-9a-f]{7}$/);
  });

  it('keeps the name when the rule moves or its fields are reordered', () => {
    const [, second] = ruleNames(spec([{ action: 'Allow' }, drop])).ingress;
    const [first] = ruleNames(spec([{ ports: [{ port: 80, protocol: 'TCP' }], action: 'Drop' }])).ingress;
    assert.equal(first, second);
  });

  it('adds a number for equal rules and names in use', () => {
    const [name = ''] = ruleNames(spec([drop])).ingress;
    assert.deepEqual(ruleNames(spec([drop, drop, drop])).ingress, [name, `${name}-2`, `${name}-3`]);
    assert.deepEqual(ruleNames(spec([drop], [{ action: 'Allow', name }])).ingress, [`${name}-2`]);
    const taken: Rule = { action: 'Allow', name: `${name}-2` };
    assert.deepEqual(ruleNames(spec([drop, taken, drop, drop])).ingress, [
      name,
      `${name}-2`,
      `${name}-3`,
      `${name}-4`,
    ]);
  });
});
