import assert from 'node:assert/strict';
import type { CountedTable } from '../agent/record/accounting.ts';
import type { IptablesRuleset } from '../agent/render/iptables/tables.ts';
import { iptablesCounts } from './iptablesdataplane.ts';

const RULESET: IptablesRuleset = {
  sets: new Map(),
  families: {
    4: [
      {
        name: 'filter',
        jumps: [],
        chains: new Map([
          [
            'NODEWALL-A',
            {
              name: 'NODEWALL-A',
              rules: [{ text: '-j DROP', counts: { ruleId: 'a', kind: 'matched' }, source: null }],
            },
          ],
        ]),
      },
    ],
    6: [],
  },
};
const saved = (packets: number) =>
  `*filter\n:NODEWALL-A - [0:0]\n[${packets}:0] -A NODEWALL-A -j DROP\nCOMMIT\n`;

function setUp(save: () => Promise<string>) {
  const read: (CountedTable | null)[] = [];
  const state: { inForce: IptablesRuleset | null } = { inForce: RULESET };
  const counts = iptablesCounts({ save }, () => state.inForce, {
    all: (table) => read.push(table),
    some: () => assert.fail('all are read at once'),
  });
  const packets = (): (bigint | null | undefined)[] =>
    read.map((table) => table?.chains[0]?.rules[0]?.packets);
  return { counts, state, packets };
}

describe('the counters of iptables', () => {
  it('are read one time after the other, whatever takes how long', async () => {
    let calls = 0;
    const { counts, packets } = setUp(async () => {
      const call = ++calls;
      await new Promise((resolve) => setTimeout(resolve, 20 - call));
      return saved(call);
    });
    await Promise.all([counts.readAll(), counts.readSome(['x']), counts.readSome([])]);
    assert.deepEqual([packets(), calls], [[1n, 3n], 4]);
  });

  it('are not read before anything is in force, nor told where that has changed meanwhile', async () => {
    const { counts, state, packets } = setUp(async () => {
      state.inForce = null;
      return saved(1);
    });
    await counts.readAll();
    await counts.readAll();
    assert.deepEqual(packets(), []);
  });

  it('go on after a failure', async () => {
    let calls = 0;
    const { counts, packets } = setUp(async () => {
      if (++calls === 1) throw new Error('locked');
      return saved(7);
    });
    await assert.rejects(counts.readAll(), { message: 'locked' });
    await counts.readAll();
    assert.deepEqual(packets(), [7n]);
  });
});
