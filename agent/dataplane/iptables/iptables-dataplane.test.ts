import assert from 'node:assert/strict';
import { IptablesCounters } from '../../apply/iptables/saved.ts';
import type { IptablesTools } from '../../apply/iptables/tools.ts';
import type { CountedTable } from '../../record/accounting.ts';
import type { IptablesRuleset } from '../../render/iptables/tables.ts';
import { countedTools, iptablesCounts } from './iptables-dataplane.ts';

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

function setUp(save: (family: 4 | 6) => Promise<string>) {
  const told: string[] = [];
  const state: { inForce: IptablesRuleset | null } = { inForce: RULESET };
  const text = (chains: CountedTable['chains']) => chains.map(({ rules }) => rules[0]?.packets).join();
  const source = { counters: new IptablesCounters(), inForce: () => state.inForce };
  const counted = countedTools({ save } as IptablesTools, source, {
    all: (table) => told.push(`all ${text(table?.chains ?? [])}`),
    some: (chains) => told.push(`some ${text(chains)}`),
  });
  return { counted, counts: iptablesCounts(counted), state, told };
}

describe('the counters of iptables', () => {
  it('are reported in the order in which they were read', async () => {
    let calls = 0;
    const { counted, counts, told } = setUp(async (family) => {
      if (family === 6) return '';
      const call = ++calls;
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, 20 - 10 * call)));
      return saved(call);
    });
    await Promise.all([counts.readAll(), counted.save(4), counts.readSome(['x']), counts.readSome([])]);
    assert.equal(calls, 3);
    const all = told.filter((line) => line.startsWith('all'));
    assert.deepEqual([...new Set(all)], ['all 1', 'all 2', 'all 3']);
  });

  it('of an earlier run are reported before the first apply, without log lines for missing ones', async () => {
    const { counts, state, told } = setUp(async (family) => (family === 4 ? saved(7) : ''));
    state.inForce = null;
    await counts.readAll();
    assert.deepEqual(told.sort(), ['some ', 'some 7']);
  });

  it('continue after a failure', async () => {
    let calls = 0;
    const { counts, told } = setUp(async () => {
      if (++calls === 1) throw new Error('locked');
      return saved(7);
    });
    await assert.rejects(counts.readAll(), { message: 'locked' });
    await counts.readAll();
    assert.equal(told.at(-1), 'all 7');
  });
});
