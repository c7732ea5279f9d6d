import assert from 'node:assert/strict';
import { type FakeKernel, fakeKernel, listing } from '../../../test/fake/fake-kernel.ts';
import { closing, fromPods, ingress, pod, rulesetOf } from '../../../test/fake/node-state.ts';
import { cidr, tcp } from '../../../test/kernel/manifests.ts';
import { type Ruleset, targets } from '../../render/ruleset.ts';
import { NodeRuleReconciler } from '../reconciler.ts';
import { type Command, commandText, type ElementsCommand } from './command.ts';
import { type CurrentChain, type CurrentState, EMPTY_STATE, stateAfter } from './current-state.ts';
import {
  isEmptyTransaction,
  isReplacement,
  replacement,
  type Transaction,
  transaction,
  transactionText,
} from './transaction.ts';

const SSH = closing('ssh', 22);
const WEB = closing('web', 80, 443);
const PODS = ingress('pods', { name: 'in', action: 'Allow', from: [fromPods('a')], ports: [tcp(5432)] });
const NETS = ingress('nets', {
  name: 'in',
  action: 'Drop',
  from: [cidr('10.0.0.0/8'), cidr('192.0.2.0/25'), cidr('fd00::/8'), cidr('fe80::1/128')],
  ports: [tcp(1000, 2000)],
});
const BOTH = ingress('both', { name: 'all', action: 'Reject', ports: [tcp(22), tcp(1500)] });

/** Enough policies for the index to have a map of ports. */
const CROWD = Array.from({ length: 20 }, (_, i) => closing(`crowd-${i}`, 3000 + 2 * i));

const texts = (change: Transaction): string[] => Object.values(change).flat().map(commandText);
const isElements = (command: Command): command is ElementsCommand => 'keys' in command;
const hex = ({ keys }: ElementsCommand) => Buffer.from(keys).toString('hex');

function change(from: readonly object[], to: readonly object[]): Transaction {
  return transaction(stateAfter(rulesetOf(from)), rulesetOf(to));
}

/** The state after a restart: the kernel has the rules, but they are unknown. */
function unknown(ruleset: Ruleset): CurrentState {
  const chains = [...ruleset.chains].map(([name, { base }]): [string, CurrentChain] => [
    name,
    { base, rules: null },
  ]);
  const handles = [...ruleset.chains.keys()].map((name, i): [string, number] => [name, i + 1]);
  return { ...stateAfter(ruleset), chains: new Map(chains), handles: new Map(handles) };
}

async function loaded(ruleset: Ruleset): Promise<FakeKernel> {
  const kernel = fakeKernel();
  await kernel.transact(replacement(ruleset).swap);
  return kernel;
}

const OTHER_BASE = { hook: { hook: 'output' }, priority: { priority: 1 }, type: { type: 'nat' } };

describe('a transaction', () => {
  it('from an empty kernel adds everything, and renames and removes nothing', () => {
    const desired = rulesetOf([SSH, PODS, NETS, ...CROWD, pod('a', '10.1.0.1')]);
    const { prepare, swap, ...rest } = transaction(EMPTY_STATE, desired);
    assert.deepEqual(Object.values(rest).flat(), []);
    assert.equal(prepare[0]?.kind, 'addTable');
    const all = prepare.map(commandText).join('\n');
    for (const name of [...desired.chains.keys(), ...desired.sets.keys(), ...desired.maps.keys()]) {
      assert.match(all, new RegExp(`^add (chain|set|map) inet nodewall ${name}( |$)`, 'm'));
    }
    // The swap adds the rules of chains that are not fixed, and nothing else.
    const loose = [...desired.chains.values()]
      .filter(({ fixed, rules }) => !fixed && rules.length > 0)
      .map(({ name }) => name);
    assert.deepEqual(
      new Set(swap.map((one) => (one.kind === 'addRule' ? one.chain : one.kind))),
      new Set(loose),
    );
    assert.ok(!prepare.some((one) => one.kind === 'addRule' && loose.includes(one.chain)));
    // A set without members needs no change of members.
    const filled = prepare.filter(isElements).map(({ set }) => set);
    const wanted = [...desired.sets.values()].filter(
      ({ members }) => members.singles.length + members.prefixes.length > 0,
    );
    assert.deepEqual(filled.sort(), [...wanted.map(({ name }) => name), ...desired.maps.keys()].sort());
  });

  it('adds no jump to a chain of the index that already leads on', () => {
    const desired = rulesetOf([SSH, PODS, NETS, BOTH, ...CROWD, pod('a', '10.1.0.1')]);
    for (const { prepare, swap } of [transaction(EMPTY_STATE, desired), replacement(desired)]) {
      const filled = new Set<string>();
      let jumps = 0;
      for (const one of [...prepare, ...swap]) {
        if (one.kind !== 'addRule') continue;
        filled.add(one.chain);
        for (const name of targets(one.rule.statement)) {
          if (desired.chains.get(name)?.fixed || !name.startsWith('ingress')) continue;
          jumps++;
          assert.ok(!filled.has(name), `${one.chain} jumps to ${name}, which has rules`);
        }
      }
      assert.ok(jumps > 1);
    }
  });

  it('to the same ruleset is empty', () => {
    const objects = [SSH, WEB, PODS, NETS, BOTH, ...CROWD, pod('a', '10.1.0.1', 'fd00::1')];
    assert.ok(isEmptyTransaction(change(objects, objects)));
    assert.ok(isEmptyTransaction(change([], [])));
    assert.ok(isEmptyTransaction(change(objects, [...objects].reverse())));
    assert.ok(!isEmptyTransaction(change(objects, objects.slice(1))));
  });

  it('for one changed rule touches its own chain and the index, no other rule', () => {
    const allowed = ingress('web', { name: 'close', action: 'Allow', ports: [tcp(80), tcp(443)] });
    const done = change([SSH, WEB, PODS, NETS, ...CROWD], [SSH, allowed, PODS, NETS, ...CROWD]);
    const rules = Object.values(done)
      .flat()
      .flatMap((one) => (one.kind === 'addRule' ? (one.source?.policy ?? `index ${one.chain}`) : []));
    assert.ok(rules.includes('web'));
    for (const rule of rules) assert.match(rule, /^(web|index ingress(-tcp.*)?)$/);
    assert.deepEqual(done.rename, []);
    assert.deepEqual(done.members, []);
    // The old chain is deleted after the swap.
    const deleted = ({ kind }: Command) => kind === 'deleteChain' || kind === 'deleteSet';
    assert.ok(done.collect.some((one) => one.kind === 'deleteChain' && one.name.endsWith('-web-close')));
    assert.deepEqual(
      Object.values({ ...done, collect: [] })
        .flat()
        .filter(deleted),
      [],
    );
  });

  it('gives map keys their new verdicts in the swap, and removes old keys after it', () => {
    const more = change(CROWD, [...CROWD, closing('more', 4000)]);
    assert.deepEqual(
      more.swap.map(({ kind }) => kind),
      ['addElements'],
    );
    assert.deepEqual(more.swap.filter(isElements).map(hex), ['0fa0']);
    assert.deepEqual(more.withdraw, []);
    const less = change(CROWD, CROWD.slice(1));
    assert.deepEqual(less.swap, []);
    assert.deepEqual(
      less.withdraw.map(({ kind }) => kind),
      ['deleteElements'],
    );
    assert.deepEqual(less.withdraw.filter(isElements).map(hex), ['0bb8']);
    const other = ingress('crowd-0', { name: 'close', action: 'Reject', ports: [tcp(3000)] });
    const changed = change(CROWD, [other, ...CROWD.slice(1)]);
    assert.deepEqual(
      changed.swap.map(({ kind }) => kind),
      ['deleteElements', 'addElements'],
    );
    assert.deepEqual(changed.swap.filter(isElements).map(hex), ['0bb8', '0bb8']);
    assert.deepEqual(changed.withdraw, []);
  });

  it('for different members adds before it deletes, and changes no rule', () => {
    const before = [PODS, pod('a', '10.1.0.1'), pod('a', '10.1.0.2', 'fd00::2')];
    const after = [PODS, pod('a', '10.1.0.1'), pod('a', '10.1.0.3', 'fd00::2')];
    const { members, withdraw, ...rest } = change(before, after);
    assert.deepEqual(Object.values(rest).flat(), []);
    assert.match((members[0] as ElementsCommand).set, /^peers-\w+-v4$/);
    assert.deepEqual(members.filter(isElements).map(hex), ['0a010003']);
    assert.deepEqual(withdraw.filter(isElements).map(hex), ['0a010002']);
    assert.deepEqual(
      [members, withdraw].map((part) => part.map(({ kind }) => kind)),
      [['addElements'], ['deleteElements']],
    );
  });

  it('makes a set before the rules that name it, and deletes it after them', () => {
    const added = change([SSH], [SSH, PODS, pod('a', '10.1.0.1', 'fd00::1')]);
    const kinds = added.prepare.map(({ kind }) => kind);
    assert.equal(kinds.filter((kind) => kind === 'addSet').length, 2);
    assert.deepEqual(added.prepare.filter(isElements).map(hex), ['0a010001', `fd00${'0'.repeat(27)}1`]);
    assert.ok(kinds.lastIndexOf('addSet') < kinds.indexOf('addRule'));
    const removed = change([SSH, PODS, pod('a', '10.1.0.1', 'fd00::1')], [SSH]);
    assert.deepEqual([removed.members, removed.withdraw], [[], []]);
    const collect = removed.collect.map(({ kind }) => kind);
    assert.deepEqual(
      collect,
      [...collect].sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b)),
    );
    assert.equal(collect.filter((kind) => kind === 'deleteSet').length, 2);
  });

  it('does not touch elements that stay', () => {
    const more = ingress('pods', { name: 'in', action: 'Drop', from: [fromPods('a')], ports: [tcp(5432)] });
    const done = change([PODS, pod('a', '10.1.0.1')], [more, pod('a', '10.1.0.1')]);
    assert.deepEqual(Object.values(done).flat().filter(isElements), []);
  });

  it('names the rule that each command is for', () => {
    const { prepare, swap } = transaction(EMPTY_STATE, rulesetOf([SSH, PODS, NETS]));
    for (const command of [...prepare, ...swap]) {
      if (command.kind !== 'addRule') continue;
      assert.equal(command.source?.policy, /-(ssh|pods|nets)-(in|close)/.exec(command.chain)?.[1]);
    }
  });

  it('prints every part', () => {
    const current = unknown(rulesetOf([SSH, PODS, ...CROWD, pod('a', '10.1.0.1')]));
    const done = transaction(current, rulesetOf([WEB, PODS, ...CROWD, pod('a', '10.1.0.2')]));
    const text = transactionText(done);
    for (const [part, commands] of Object.entries(done)) {
      assert.ok(commands.length > 0, part);
      assert.match(text, new RegExp(`^# ${part}$`, 'm'), `${part} is not printed`);
    }
    for (const command of texts(done)) assert.ok(text.includes(`${command}\n`), command);
  });

  it('prints names that nft cannot quote', () => {
    const current = stateAfter(rulesetOf([SSH]));
    const chains = new Map<string, CurrentChain>([...current.chains, ['a b', { base: null, rules: null }]]);
    const text = transactionText(transaction({ ...current, chains }, rulesetOf([SSH])));
    assert.equal(text, '# collect\nflush chain inet nodewall "a b"\ndelete chain inet nodewall "a b"\n');
  });
});

const INPUT = { type: 'filter', hook: 'input', priority: 0, policy: 'accept' } as const;
const ORDER = ['flushChain', 'deleteChain', 'deleteSet'];

describe('a transaction from an unknown state', () => {
  const recorded = ingress('rec', { name: 'in', action: 'Drop', ports: [tcp(7)], enableLogging: true });
  const objects = [SSH, WEB, PODS, recorded, ...CROWD, pod('a', '10.1.0.1')];
  const ruleset = rulesetOf(objects);
  const renames = ({ rename }: Transaction) =>
    rename.flatMap((one) => (one.kind === 'renameChain' ? one : []));

  it('renames unknown fixed chains and adds them again', () => {
    const done = transaction(unknown(ruleset), ruleset);
    const fixed = [...ruleset.chains.values()].filter(({ fixed: yes }) => yes).map(({ name }) => name);
    assert.deepEqual(
      renames(done)
        .map(({ name }) => name)
        .sort(),
      fixed.sort(),
    );
    const aside = renames(done).map(({ to }) => to);
    assert.ok(aside.every((name) => /^stale-\d+$/.test(name)) && new Set(aside).size === aside.length);
    const made = done.prepare.flatMap((one) => (one.kind === 'addChain' ? one.chain.name : []));
    assert.deepEqual(made.sort(), fixed.sort());
    const deleted = done.collect.flatMap((one) => (one.kind === 'deleteChain' ? one.name : []));
    assert.deepEqual(deleted.sort(), aside.sort());
    // A map led to chains that were renamed, so all its keys get another target in one transaction.
    const [taken, given] = ['deleteElements', 'addElements'].map((kind) =>
      done.swap
        .filter((one) => one.kind === kind)
        .filter(isElements)
        .map(hex),
    );
    assert.ok(taken?.length === ruleset.maps.size);
    assert.deepEqual(taken, given);
  });

  it('uses no name that is in use', () => {
    const current = unknown(ruleset);
    const taken = new Map([
      ...current.chains,
      ['stale-0', { base: null, rules: null }],
      ['stale-2', { base: null, rules: null }],
    ]);
    const aside = renames(transaction({ ...current, chains: taken }, ruleset)).map(({ to }) => to);
    assert.ok(aside.includes('stale-1') && !aside.includes('stale-0') && !aside.includes('stale-2'));
  });

  it('renames a fixed chain together with a chain that it leads to, by handle', () => {
    const jumper = [...ruleset.chains.values()].find(
      ({ fixed, rules }) =>
        fixed && rules.some(({ statement }) => statement.kind === 'goto' || statement.kind === 'jump'),
    );
    const [target] = (jumper?.rules ?? []).flatMap(({ statement }) =>
      'chain' in statement ? statement.chain : [],
    );
    assert.ok(jumper !== undefined && target !== undefined);
    const current = { ...stateAfter(ruleset), handles: unknown(ruleset).handles };
    const chains = new Map<string, CurrentChain>([...current.chains, [target, { base: null, rules: null }]]);
    const moved = renames(transaction({ ...current, chains }, ruleset));
    const names = moved.map(({ name }) => name);
    assert.ok(names.includes(jumper.name) && names.includes(target));
    assert.ok(!names.some((name) => /-web-close$/.test(name)));
    for (const { name, handle } of moved) assert.equal(handle, current.handles.get(name));
  });
});

describe('an unknown chain that a range leads to', () => {
  const ruleset = rulesetOf([SSH, WEB, PODS, NETS, BOTH, ...CROWD]);
  const ranges = [...ruleset.maps.values()].filter(({ interval }) => interval);
  const pinned = ranges.flatMap(({ verdicts }) => verdicts.map(({ chain }) => chain));
  const isPinned = (name: string) => pinned.includes(name);

  it('is rewritten in place, with all rules that lead to renamed chains', () => {
    assert.ok(pinned.length > 0);
    const { rename, swap, prepare } = transaction(unknown(ruleset), ruleset);
    assert.ok(rename.length > 0 && !rename.some((one) => one.kind === 'renameChain' && isPinned(one.name)));
    const written = swap.flatMap((one) => (one.kind === 'flushChain' ? one.name : []));
    assert.ok(pinned.every((name) => written.includes(name)));
    assert.ok(!prepare.some((one) => one.kind === 'addChain' && isPinned(one.chain.name)));
  });
});

describe('a transaction removes foreign objects', () => {
  const ruleset = rulesetOf([SSH, PODS, pod('a', '10.1.0.1')]);
  const nothing = { targets: new Uint32Array(), verdicts: [] };
  const foreign: readonly (readonly [string, Partial<CurrentState>, RegExp])[] = [
    ['chain', { chains: new Map([['x', { base: null, rules: null }]]) }, /^delete chain inet nodewall x$/m],
    [
      'base chain',
      { chains: new Map([['x', { base: { ...INPUT, priority: 5 }, rules: null }]]) },
      /^flush chain inet nodewall x\ndelete chain inet nodewall x$/m,
    ],
    [
      'set',
      { sets: new Map([['x', { family: null, key: 'address', interval: true, members: null }]]) },
      /^delete set inet nodewall x$/m,
    ],
    [
      'map',
      { maps: new Map([['x', { key: 'other', family: null, interval: false, keys: null, ...nothing }]]) },
      /^delete set inet nodewall x$/m,
    ],
  ];
  for (const [kind, extra, expected] of foreign) {
    it(`a ${kind}`, () => {
      const current = stateAfter(ruleset);
      const { collect, ...rest } = transaction(
        {
          ...current,
          chains: new Map([...current.chains, ...(extra.chains ?? [])]),
          sets: new Map([...current.sets, ...(extra.sets ?? [])]),
          maps: new Map([...current.maps, ...(extra.maps ?? [])]),
        },
        ruleset,
      );
      assert.match(collect.map(commandText).join('\n'), expected);
      assert.deepEqual(Object.values(rest).flat(), []);
    });
  }
});

describe('a transaction replaces the table', () => {
  const ruleset = rulesetOf([SSH, PODS, NETS, ...CROWD, pod('a', '10.1.0.1')]);
  const current = stateAfter(ruleset);
  const [set] = ruleset.sets.values();
  const [map] = ruleset.maps.values();
  assert.ok(set !== undefined && map !== undefined);
  const cases: readonly (readonly [string, CurrentState])[] = [
    [
      'where a set has another type',
      {
        ...current,
        sets: new Map([...current.sets, [set.name, { ...set, family: set.family === 4 ? 6 : 4 }]]),
      },
    ],
    [
      'where a set is of no type of ours',
      { ...current, sets: new Map([...current.sets, [set.name, { ...set, family: null }]]) },
    ],
    [
      'where a set has intervals, or has none',
      { ...current, sets: new Map([...current.sets, [set.name, { ...set, interval: !set.interval }]]) },
    ],
    [
      'where a map has a name of a set',
      {
        ...current,
        sets: new Map([...current.sets].filter(([name]) => name !== set.name)),
        maps: new Map([...current.maps, [set.name, map]]),
      },
    ],
    [
      'where a set has a name of a map',
      { ...current, maps: new Map(), sets: new Map([...current.sets, [map.name, set]]) },
    ],
    [
      'where a map is by other keys',
      { ...current, maps: new Map([...current.maps, [map.name, { ...map, key: 'other', keys: null }]]) },
    ],
    [
      'where a map has intervals, or has none',
      { ...current, maps: new Map([...current.maps, [map.name, { ...map, interval: !map.interval }]]) },
    ],
    ...(['hook', 'priority', 'type'] as const).map((field): [string, CurrentState] => {
      const base = INPUT;
      const other = {
        ...base,
        ...OTHER_BASE[field],
      };
      const chains = new Map<string, CurrentChain>([
        ...current.chains,
        ['input', { base: other as CurrentChain['base'], rules: null }],
      ]);
      return [`where a base chain has another ${field}`, { ...current, chains }];
    }),
    [
      'where a base chain is none',
      {
        ...current,
        chains: new Map<string, CurrentChain>([...current.chains, ['input', { base: null, rules: null }]]),
      },
    ],
  ];
  for (const [title, wrong] of cases) {
    it(title, async () => {
      const done = transaction(wrong, ruleset);
      const { swap, ...rest } = done;
      assert.deepEqual(Object.values(rest).flat(), []);
      assert.ok(isReplacement(done));
      const kernel = await loaded(rulesetOf([WEB]));
      await kernel.transact(swap);
      assert.deepEqual(await listing(kernel), await listing(await loaded(ruleset)));
    });
  }

  it('when a range gets another verdict, and only then', () => {
    const ranges = { ...map, interval: true, fixed: true, keys: Uint8Array.of(0, 1, 0, 9, 0, 20, 0, 30) };
    const targets = Uint32Array.of(0, 1);
    const with_ = (interval: object): Ruleset => ({
      ...ruleset,
      maps: new Map([['m', { ...ranges, name: 'm', targets, ...interval }]]),
    });
    const read = stateAfter(with_({ fixed: false }));
    assert.ok(isEmptyTransaction(transaction(read, with_({}))));
    assert.ok(isReplacement(transaction(read, with_({ targets: Uint32Array.of(1, 0) }))));
  });
});

describe('a transaction has an order that the kernel accepts', () => {
  const states: Readonly<Record<string, readonly object[]>> = {
    nothing: [],
    ports: [SSH, WEB],
    sets: [PODS, NETS, pod('a', '10.1.0.1', 'fd00::1')],
    maps: [SSH, WEB, ...CROWD],
    lists: [SSH, WEB, BOTH, NETS, ...CROWD.slice(4)],
    all: [SSH, WEB, PODS, NETS, BOTH, ...CROWD, pod('a', '10.1.0.1'), pod('a', '10.1.0.2')],
  };
  for (const [from, before] of Object.entries(states)) {
    for (const [to, after] of Object.entries(states)) {
      it(`from ${from} to ${to}`, async () => {
        const kernel = fakeKernel();
        const desired = rulesetOf(after);
        const reconciler = new NodeRuleReconciler(kernel);
        await reconciler.apply(rulesetOf(before));
        await reconciler.apply(desired);
        assert.deepEqual(await listing(kernel), await listing(await loaded(desired)));
        // Again with a reconciler that knows nothing of the state.
        await new NodeRuleReconciler(kernel).apply(desired);
        assert.deepEqual(await listing(kernel), await listing(await loaded(desired)));
      });
    }
  }
});
