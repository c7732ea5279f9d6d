import assert from 'node:assert/strict';
import fc from 'fast-check';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { recordRule } from '../render/rule-chain.ts';
import type { Chain, Ruleset } from '../render/ruleset.ts';
import { Accounting, type CountedTable, NO_ACCOUNTS, nftOwners, type SavedAccounts } from './accounting.ts';

const RULES = ['a', 'b', 'c'] as const;
type RuleId = (typeof RULES)[number];

/** A rule in force: the version of its text, and whether it has logging. */
interface Version {
  readonly text: number;
  readonly logged: boolean;
}
type Versions = Partial<Record<RuleId, Version>>;

const matchedName = (rule: RuleId, { text, logged }: Version) => `ingress-${rule}-${text}-${logged}`;
const RECORD_RULE = recordRule('', DEFAULT_CONFIG.log);
const recordName = (rule: RuleId) => `record-${rule}`;

function ruleset(versions: Versions): Ruleset {
  const chain = (name: string, ruleId: string | null, own: boolean): [string, Chain] => {
    const source = own ? ({ policy: 'p', rule: ruleId } as Chain['source']) : null;
    const rules = name.startsWith('record-') ? [RECORD_RULE] : [];
    return [name, { name, base: null, fixed: true, rules, source, ruleId }];
  };
  const chains = new Map([chain('input', null, false)]);
  for (const [rule, version] of Object.entries(versions) as [RuleId, Version][]) {
    chains.set(...chain(matchedName(rule, version), rule, true));
    if (version.logged) chains.set(...chain(recordName(rule), rule, false));
  }
  return { chains, sets: new Map(), maps: new Map() };
}

/** A fake of the kernel's counters: existing chains keep counting. */
class Counting {
  #handle = 0;
  chains = new Map<string, { handle: number; packets: number; bytes: number }>();

  apply(names: Iterable<string>): void {
    const wanted = new Set(names);
    for (const name of this.chains.keys()) if (!wanted.has(name)) this.chains.delete(name);
    for (const name of wanted) {
      if (!this.chains.has(name)) this.chains.set(name, { handle: ++this.#handle, packets: 0, bytes: 0 });
    }
  }

  clear(): void {
    this.chains.clear();
    this.#handle = 0;
  }

  count(name: string, packets: number): void {
    const chain = this.chains.get(name);
    if (chain === undefined) return;
    chain.packets += packets;
    chain.bytes += 60 * packets;
  }

  table(): CountedTable {
    return {
      chains: [...this.chains].map(([name, { handle, packets, bytes }]) => ({
        name,
        handle,
        rules: [
          { packets: BigInt(packets), bytes: BigInt(bytes) },
          { packets: null, bytes: null },
        ],
      })),
    };
  }
}

type Step =
  | { readonly do: 'pass'; readonly rule: RuleId; readonly packets: number; readonly recorded: number }
  | { readonly do: 'apply' | 'replace'; readonly versions: Versions }
  | { readonly do: 'read' | 'restart' | 'crash' | 'reboot' | 'moveAside' };

const version = fc.option(fc.record({ text: fc.nat(2), logged: fc.boolean() }), { nil: undefined });
const versions = fc
  .record({ a: version, b: version, c: version })
  .map((all) => Object.fromEntries(Object.entries(all).filter(([, one]) => one !== undefined)) as Versions);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      rule: fc.constantFrom(...RULES),
      packets: fc.nat(20),
      recorded: fc.nat(20),
    }),
  },
  fc.record({ do: fc.constantFrom('apply' as const, 'replace' as const), versions }),
  fc.record({
    do: fc.constantFrom(
      'read' as const,
      'restart' as const,
      'crash' as const,
      'reboot' as const,
      'moveAside' as const,
    ),
  }),
);

/** The real events, and the program's view of them. */
class World {
  readonly kernel = new Counting();
  accounts = new Accounting();
  saved: SavedAccounts = NO_ACCOUNTS;
  versions: Versions = {};
  readonly passed = new Map<RuleId, { packets: number; logged: number; recorded: number }>();

  run(one: Step): void {
    switch (one.do) {
      case 'pass':
        this.#pass(one.rule, one.packets, Math.min(one.recorded, one.packets));
        return;
      case 'read':
        this.#read();
        return;
      case 'apply':
      case 'replace':
        this.#apply(one.versions, one.do === 'replace');
        return;
      case 'restart':
        this.#read();
        this.#start(this.accounts.save());
        return;
      case 'crash':
        // The state after the last apply was saved.
        this.#start(this.saved);
        return;
      case 'reboot':
        this.#read();
        this.kernel.clear();
        this.#start(this.accounts.save());
        this.#apply(this.versions, false);
        return;
      case 'moveAside': {
        // A renamed chain keeps counting until it is garbage-collected; a new one has its name.
        this.#read();
        const [name] = this.kernel.chains.keys();
        if (name === undefined) break;
        const names = [...this.kernel.chains.keys()];
        this.kernel.chains = new Map(
          [...this.kernel.chains].map(([key, chain]) => [key === name ? 'stale-0' : key, chain]),
        );
        this.kernel.apply([...names, 'stale-0']);
        this.#read();
        this.kernel.apply(names);
        // It is a part of an apply, after which the counters are saved.
        this.saved = this.accounts.save();
      }
    }
  }

  #pass(rule: RuleId, packets: number, recorded: number): void {
    const now = this.versions[rule];
    if (now === undefined) return;
    this.kernel.count(matchedName(rule, now), packets);
    if (now.logged) this.kernel.count(recordName(rule), recorded);
    const before = this.passed.get(rule) ?? { packets: 0, logged: 0, recorded: 0 };
    this.passed.set(rule, {
      packets: before.packets + packets,
      logged: before.logged + (now.logged ? packets : 0),
      recorded: before.recorded + (now.logged ? recorded : 0),
    });
  }

  #read(): void {
    this.accounts.read(this.kernel.table(), 'now');
  }

  #start(saved: SavedAccounts): void {
    this.accounts = new Accounting(JSON.parse(JSON.stringify(saved)));
    this.#read();
  }

  #apply(next: Versions, replace: boolean): void {
    this.#read();
    if (replace) this.kernel.clear();
    const rules = ruleset(next);
    this.kernel.apply(rules.chains.keys());
    this.accounts.know(nftOwners(rules));
    this.accounts.keep(new Set(Object.keys(next)));
    for (const rule of RULES) if (next[rule] === undefined) this.passed.delete(rule);
    this.versions = next;
    this.#read();
    this.saved = this.accounts.save();
  }
}

describe('accounting', () => {
  it('counts packets exactly while chains change', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const world = new World();
        let before = new Map<string, number>();
        for (const one of steps) {
          world.run(one);
          const totals = world.accounts.totals();
          for (const [rule, packets] of before) {
            if (world.versions[rule as RuleId] === undefined) continue;
            const now = totals.get(rule)?.packets ?? 0;
            // After a crash, only the saved counters are known until the kernel is read, which
            // #start does.
            assert(now >= packets, `${rule} fell from ${packets} to ${now} by ${JSON.stringify(one)}`);
          }
          before = new Map([...totals].map(([rule, { packets }]) => [rule, packets]));
        }
        world.run({ do: 'read' });
        for (const [rule, { packets, logged, recorded }] of world.passed) {
          const { lastHit, ...found } = world.accounts.totals().get(rule) ?? {
            packets: 0,
            bytes: 0,
            logged: 0,
            recorded: 0,
            lastHit: null,
          };
          assert.deepEqual(found, { packets, bytes: 60 * packets, logged, recorded }, rule);
          assert.equal(lastHit !== null, packets > 0, rule);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('prefers the time of a record to that of the reading', () => {
    const accounts = new Accounting();
    const kernel = new Counting();
    const rules = ruleset({ a: { text: 0, logged: true } });
    kernel.apply(rules.chains.keys());
    accounts.know(nftOwners(rules));
    kernel.count('ingress-a-0-true', 1);
    accounts.hit('a', '10:00:01');
    accounts.read(kernel.table(), '10:00:10');
    assert.equal(accounts.totals().get('a')?.lastHit, '10:00:01');
    kernel.count('ingress-a-0-true', 1);
    accounts.read(kernel.table(), '10:00:20');
    assert.equal(accounts.totals().get('a')?.lastHit, '10:00:20');
  });

  it('knows since when a rule is counted, over restarts, until the rule is removed', () => {
    const kernel = new Counting();
    const rules = ruleset({ a: { text: 0, logged: false } });
    const accounts = new Accounting();
    kernel.apply(rules.chains.keys());
    accounts.know(nftOwners(rules));
    assert.equal(accounts.since().get('a'), undefined);
    accounts.read(kernel.table(), '10:00:10');
    accounts.read(kernel.table(), '10:00:20');
    const again = new Accounting(JSON.parse(JSON.stringify(accounts.save())));
    again.know(nftOwners(rules));
    again.read(kernel.table(), '10:00:30');
    assert.equal(again.since().get('a'), '10:00:10');
    again.keep(new Set());
    assert.equal(again.since().get('a'), undefined);
    const { since: _, ...earlier } = accounts.save();
    const upgraded = new Accounting(earlier);
    upgraded.read(kernel.table(), '10:00:40');
    assert.equal(upgraded.since().get('a'), '10:00:40');
  });

  it('rejects data that it did not save', () => {
    for (const bad of [
      null,
      7,
      [],
      {},
      { chains: [{}], rules: {} },
      { chains: [], rules: { a: {} } },
      { chains: [], rules: {}, since: { a: 1 } },
    ]) {
      assert.throws(() => new Accounting(bad), TypeError, JSON.stringify(bad));
    }
  });
});
