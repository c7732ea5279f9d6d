import assert from 'node:assert/strict';
import { accounting } from '../../record/accounting.ts';
import type { Counts, IptablesRuleset } from '../../render/iptables/tables.ts';
import { countedTable, iptablesOwners, type RuleCount } from './counted.ts';

const count = (family: 4 | 6, ruleId: string, kind: Counts['kind'], packets: number): RuleCount => ({
  family,
  counts: { ruleId, kind },
  packets: BigInt(packets),
  bytes: BigInt(60 * packets),
});

function ruleset(...rules: readonly (readonly [4 | 6, string, Counts['kind']])[]): IptablesRuleset {
  const of = (wanted: 4 | 6) => ({
    name: 'filter' as const,
    jumps: [],
    chains: new Map([
      [
        'NODEWALL-A',
        {
          name: 'NODEWALL-A',
          rules: [
            { text: '-j ACCEPT', counts: null, source: null },
            ...rules.flatMap(([family, ruleId, kind]) =>
              family === wanted ? [{ text: '', counts: { ruleId, kind }, source: null }] : [],
            ),
          ],
        },
      ],
    ]),
  });
  return { sets: new Map(), families: { 4: [of(4)], 6: [of(6)] } };
}

describe('what iptables counted', () => {
  it('adds up the rules of a policy rule, by family and kind', () => {
    const { chains } = countedTable([
      count(4, 'a', 'matched', 1),
      count(4, 'a', 'matched', 2),
      count(6, 'a', 'matched', 4),
      count(4, 'b', 'matched', 8),
    ]);
    assert.deepEqual(
      chains.map(({ name, rules }) => [name, rules]),
      [
        ['ipv4 a matched', [{ packets: 3n, bytes: 180n }]],
        ['ipv6 a matched', [{ packets: 4n, bytes: 240n }]],
        ['ipv4 b matched', [{ packets: 8n, bytes: 480n }]],
      ],
    );
    assert.equal(new Set(chains.map(({ handle }) => handle)).size, 3);
    assert.ok(chains.every(({ handle }) => Number.isSafeInteger(handle)));
  });

  it('is what accounting goes on with, through restarts, reboots and a record that comes', () => {
    let accounts = accounting();
    const restart = () => {
      accounts = accounting(JSON.parse(JSON.stringify(accounts.save())));
    };
    accounts.know(iptablesOwners(ruleset([4, 'a', 'matched'], [6, 'a', 'matched'])));
    accounts.read(countedTable([count(4, 'a', 'matched', 5), count(6, 'a', 'matched', 1)]), 't1');
    restart();
    accounts.read(countedTable([count(4, 'a', 'matched', 7), count(6, 'a', 'matched', 1)]), 't2');
    assert.deepEqual(accounts.totals().get('a'), {
      packets: 8,
      bytes: 480,
      lastHit: 't2',
      logged: 0,
      recorded: 0,
    });
    // It gets a record, in one family only: its rules are written anew.
    accounts.know(iptablesOwners(ruleset([4, 'a', 'matched'], [4, 'a', 'record'], [6, 'a', 'matched'])));
    accounts.read(
      countedTable([count(4, 'a', 'matched', 2), count(4, 'a', 'record', 1), count(6, 'a', 'matched', 0)]),
      't3',
    );
    const now = accounts.totals().get('a');
    assert.deepEqual([now?.packets, now?.logged, now?.recorded], [10, 2, 1]);
    restart();
    accounts.read(countedTable([count(4, 'a', 'matched', 0), count(4, 'a', 'record', 0)]), 't4');
    assert.equal(accounts.totals().get('a')?.packets, 10);
  });
});
