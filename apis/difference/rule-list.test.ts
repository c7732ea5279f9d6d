import assert from 'node:assert/strict';
import { DEFAULT_LEAF, type PreparedRule } from './entry.ts';
import { relevantRules } from './rule-list.ts';
import type { Box } from './service-space.ts';

const TCP = 6;
const UDP = 17;

function rule(id: string, boxes: PreparedRule['boxes'], matchesAny = true): PreparedRule {
  const outcome = {
    leaf: DEFAULT_LEAF,
    isPass: false,
    isBaseline: false,
    isSkippable: false,
    sparesPods: false,
  };
  const lists = { groups: [], sets: [], parts: [], destinations: [] };
  return { id, meaning: id, outcome, boxes, matchesAny, ...lists };
}

const ports = (first: number, last = first, protocol = TCP): ReadonlyMap<number, readonly Box[]> =>
  new Map([[protocol, [{ x: [first, last], y: [1, 65_535] }]]]);

const ALL: readonly PreparedRule[] = [
  rule('80', ports(80)),
  rule('udp 80', ports(80, 80, UDP)),
  rule('81', ports(81)),
  rule('1-79', ports(1, 79)),
  rule('70-90', ports(70, 90)),
  rule('every port', null),
  { ...rule('service', null, false), parts: [{ set: 0, boxes: ports(80) }] },
  { ...rule('other service', null, false), parts: [{ set: 0, boxes: ports(8080) }] },
];

function relevant(own: readonly PreparedRule[]): string[] {
  const isOwn = ALL.map((one) => own.includes(one));
  const found = relevantRules(ALL, isOwn, own);
  assert.equal(found.isOwn.filter(Boolean).length, own.filter((one) => ALL.includes(one)).length);
  return found.rules.map(({ id }) => id);
}

describe('the rules that matter for a difference', () => {
  it('are those with flows of an own rule', () => {
    assert.deepEqual(relevant([rule('own', ports(80))]), ['80', '70-90', 'every port', 'service']);
  });

  it('are all, where an own rule matches every flow', () => {
    assert.equal(relevant([rule('own', null)]).length, ALL.length);
  });

  it('are the own ones too', () => {
    const own = ALL.filter(({ id }) => id === 'other service');
    assert.deepEqual(relevant(own), ['every port', 'other service']);
  });
});
