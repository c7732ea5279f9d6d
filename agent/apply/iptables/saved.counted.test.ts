import assert from 'node:assert/strict';
import { FAMILIES } from '../../../lib/net/address.ts';
import { Accounting, type CountedTable } from '../../record/accounting.ts';
import type {
  CountPurpose,
  IptablesRule,
  IptablesRuleset,
  IptablesTable,
} from '../../render/iptables/tables.ts';
import { countedRules, IptablesCounters } from './saved.ts';

type Kind = CountPurpose['kind'] | null;

const rule = (text: string, kind: Kind, ruleId = 'a'): IptablesRule => ({
  text,
  counts: kind === null ? null : { ruleId, kind },
  source: null,
});

function ruleset(v4: readonly IptablesRule[], v6: readonly IptablesRule[] = []): IptablesRuleset {
  const tables = (rules: readonly IptablesRule[]): IptablesTable[] => [
    { name: 'filter', jumps: [], chains: new Map([['NODEWALL-A', { name: 'NODEWALL-A', rules }]]) },
  ];
  return { sets: new Map(), families: { 4: tables(v4), 6: tables(v6) } };
}

/** Like the output of iptables-save; packets have 60 bytes. */
function saved(...rules: readonly (readonly [text: string, packets: number])[]): string {
  const lines = rules.map(([text, packets]) => `[${packets}:${60 * packets}] -A NODEWALL-A ${text}`);
  return ['*filter', ':INPUT ACCEPT [0:0]', ':NODEWALL-A - [0:0]', ...lines, 'COMMIT', ''].join('\n');
}

const counters = new IptablesCounters();
const NOTHING = '*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n';

/** The counters of both families. */
function countedTable(given: Readonly<Record<4 | 6, string>>, desired: IptablesRuleset): CountedTable {
  return { chains: FAMILIES.flatMap((family) => counters.read(family, given[family], desired)) };
}

function packets(found: CountedTable): number[] {
  return found.chains.map(({ rules }) => Number(rules[0]?.packets));
}

describe('what iptables counted', () => {
  it('is read from the rules that count for a policy rule', () => {
    const desired = ruleset(
      [rule('-j X', null), rule('-p tcp -j DROP', 'matched'), rule('-p tcp -j DROP', 'matched', 'b')],
      [rule('-p tcp -j DROP', 'matched')],
    );
    const found = countedTable(
      {
        4: saved(['-j X', 1], ['-p tcp -j DROP', 2], ['-p tcp -j DROP', 3]),
        6: saved(['-p tcp -j DROP', 4]),
      },
      desired,
    );
    assert.deepEqual(packets(found), [2, 3, 4]);
    assert.equal(new Set(found.chains.map(({ handle }) => handle)).size, 3);
    assert.ok(found.chains.every(({ handle }) => Number.isSafeInteger(handle)));
    assert.deepEqual(
      found.chains.map(({ name }) => counters.owners(desired).get(name)?.rule),
      ['a', 'b', 'a'],
    );
  });

  it('is empty without rules of nodewall, and matched by text when a third party removed a rule', () => {
    const desired = ruleset([rule('-j X', null), rule('-p udp -j DROP', 'matched')]);
    assert.deepEqual(packets(countedTable({ 4: NOTHING, 6: NOTHING }, desired)), []);
    assert.deepEqual(packets(countedTable({ 4: saved(['-p udp -j DROP', 5]), 6: NOTHING }, desired)), [5]);
    assert.deepEqual(packets(countedTable({ 4: saved(['-j X', 5]), 6: NOTHING }, desired)), []);
  });

  it('is found by rule names alone, without the ruleset', () => {
    const desired = ruleset([rule('-j X', null), rule('-p udp -j DROP', 'matched')]);
    const all = countedRules({ 4: saved(['-j X', 1], ['-p udp -j DROP', 5]), 6: NOTHING });
    const [own] = countedTable({ 4: saved(['-j X', 1], ['-p udp -j DROP', 5]), 6: NOTHING }, desired).chains;
    assert.deepEqual(all?.chains[1], own);
    assert.equal(countedRules({ 4: NOTHING, 6: NOTHING }), null);
  });

  it('continues over restarts, changed texts, an added record chain, and reboots', () => {
    let accounts = new Accounting();
    const read = (desired: IptablesRuleset, v4: string, restarted = false): number | undefined => {
      if (restarted) accounts = new Accounting(JSON.parse(JSON.stringify(accounts.save())));
      accounts.know(counters.owners(desired));
      accounts.read(countedTable({ 4: v4, 6: NOTHING }, desired), 'now');
      return accounts.totals().get('a')?.packets;
    };
    const two = ruleset([rule('-s x', 'matched'), rule('-s y', 'matched')]);
    assert.equal(read(two, saved(['-s x', 10], ['-s y', 5])), 15);
    assert.equal(read(two, saved(['-s x', 11], ['-s y', 5]), true), 16);
    const other = ruleset([rule('-s x', 'matched'), rule('-s z', 'matched')]);
    assert.equal(read(other, saved(['-s x', 11], ['-s z', 1])), 17);
    assert.equal(read(other, saved(['-s x', 12], ['-s z', 1]), true), 18);
    const logged = ruleset([rule('-s x', 'matched'), rule('-j NFLOG', 'record')]);
    assert.equal(read(logged, saved(['-s x', 14], ['-j NFLOG', 1])), 20);
    const { logged: matched, recorded } = accounts.totals().get('a') ?? {};
    // Two packets came while the record chain was in force, or just before: the rules of one
    // reading are not read at one moment.
    assert.deepEqual([matched, recorded], [2, 1]);
    assert.equal(read(logged, saved(['-s x', 1], ['-j NFLOG', 1]), true), 21);
  });
});
