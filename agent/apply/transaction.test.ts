import assert from 'node:assert/strict';
import { type FakeKernel, fakeKernel } from '../../test/fake/fakekernel.ts';
import { listing } from '../../test/fake/listing.ts';
import { closing, fromPods, ingress, pod, rulesetOf } from '../../test/fake/nodestate.ts';
import { cidr, tcp } from '../../test/kernel/manifests.ts';
import { rulesetText } from '../render/nfttext.ts';
import type { Ruleset } from '../render/ruleset.ts';
import { type Held, type HeldChain, heldAfter, NOTHING_HELD } from './held.ts';
import { NodeRuleReconciler } from './reconciler.ts';
import { isEmpty, type Transaction, transaction } from './transaction.ts';
import { transactionText } from './transactiontext.ts';

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

const texts = (change: Transaction): string[] =>
  [change.rename, change.prepare, change.swap, change.sweep].flat().map(({ text }) => text);

function change(from: readonly object[], to: readonly object[]): Transaction {
  return transaction(heldAfter(rulesetOf(from)), rulesetOf(to));
}

/** As after a restart: the kernel's rules are there, and nobody knows whose they are. */
function unknown(ruleset: Ruleset): Held {
  const held = heldAfter(ruleset);
  const chains = [...held.chains].map(([name, { base }]): [string, HeldChain] => [
    name,
    { base, known: null },
  ]);
  return { ...held, chains: new Map(chains) };
}

async function loaded(ruleset: Ruleset): Promise<FakeKernel> {
  const kernel = fakeKernel();
  await kernel.commands.run(rulesetText(ruleset));
  return kernel;
}

describe('a transaction', () => {
  it('from nothing makes everything, and moves and removes nothing', () => {
    const desired = rulesetOf([SSH, PODS, NETS, pod('a', '10.1.0.1')]);
    const { rename, sweep, ...rest } = transaction(NOTHING_HELD, desired);
    assert.deepEqual([rename, sweep], [[], []]);
    assert.equal(rest.prepare[0]?.text, 'add table inet nodewall');
    const all = texts({ rename, sweep, ...rest }).join('\n');
    for (const name of [...desired.chains.keys(), ...desired.sets.keys(), ...desired.maps.keys()]) {
      assert.match(all, new RegExp(`^add (chain|set|map) inet nodewall ${name}( |$)`, 'm'));
    }
    // What has no members needs no change of members.
    assert.ok(rest.members.length > 0 && rest.members.length <= desired.sets.size);
    assert.deepEqual(
      rest.maps.map(({ map }) => map),
      [...desired.maps.keys()],
    );
  });

  it('to the same is empty', () => {
    const objects = [SSH, WEB, PODS, NETS, BOTH, pod('a', '10.1.0.1', 'fd00::1')];
    assert.ok(isEmpty(change(objects, objects)));
    assert.ok(isEmpty(change([], [])));
    assert.ok(isEmpty(change(objects, [...objects].reverse())));
    assert.ok(!isEmpty(change(objects, objects.slice(1))));
  });

  it('for one changed rule touches its own chain and the index, no other rule', () => {
    const allowed = ingress('web', { name: 'close', action: 'Allow', ports: [tcp(80), tcp(443)] });
    const done = change([SSH, WEB, PODS, NETS], [SSH, allowed, PODS, NETS]);
    const rest = texts(done).filter((text) => !/-web-close( |$)/.test(text));
    for (const text of rest)
      assert.match(text, /(chain|rule|map) inet nodewall (ingress|ingress-tcp(-ports-\w+)?)( |$)/);
    assert.ok(done.prepare.some(({ source }) => source?.policy === 'web'));
    assert.deepEqual(done.rename, []);
    assert.deepEqual(done.members, []);
    // The old chain goes, after the swap.
    assert.equal(done.sweep.filter(({ text }) => /^delete chain .*-web-close$/.test(text)).length, 1);
    assert.ok(!texts({ ...done, sweep: [] }).some((text) => text.startsWith('delete')));
  });

  it('for other members changes those, and no rule', () => {
    const before = [PODS, pod('a', '10.1.0.1'), pod('a', '10.1.0.2', 'fd00::2')];
    const after = [PODS, pod('a', '10.1.0.1'), pod('a', '10.1.0.3', 'fd00::2')];
    const done = change(before, after);
    assert.deepEqual(texts(done), []);
    assert.deepEqual(done.maps, []);
    const [members, ...more] = done.members;
    assert.deepEqual(more, []);
    assert.ok(members !== undefined);
    const { set, ...bytes } = members;
    assert.match(set, /^peers-\w+-v4$/);
    assert.deepEqual(
      { ...bytes, addedSingles: [...bytes.addedSingles], removedSingles: [...bytes.removedSingles] },
      {
        keyLength: 4,
        interval: false,
        flush: false,
        addedSingles: [10, 1, 0, 3],
        removedSingles: [10, 1, 0, 2],
        addedRanges: Buffer.alloc(0),
        removedRanges: Buffer.alloc(0),
      },
    );
  });

  it('makes a set before the rules that name it, and deletes it after them', () => {
    const added = change([SSH], [SSH, PODS, pod('a', '10.1.0.1')]);
    assert.equal(added.prepare.filter(({ text }) => text.startsWith('add set')).length, 2);
    assert.deepEqual(
      added.members.map(({ keyLength }) => keyLength),
      [4],
    );
    const removed = change([SSH, PODS, pod('a', '10.1.0.1')], [SSH]);
    assert.deepEqual(removed.members, []);
    const sweep = removed.sweep.map(({ text }) => text.split(' ').slice(0, 2).join(' '));
    assert.deepEqual(
      sweep,
      [...sweep].sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b)),
    );
    assert.equal(sweep.filter((text) => text === 'delete set').length, 2);
  });

  it('leaves elements that stay where they are', () => {
    const more = ingress('pods', { name: 'in', action: 'Drop', from: [fromPods('a')], ports: [tcp(5432)] });
    const done = change([PODS, pod('a', '10.1.0.1')], [more, pod('a', '10.1.0.1')]);
    assert.deepEqual(done.members, []);
  });

  it('names the rule that each line is for', () => {
    const { prepare, swap } = transaction(NOTHING_HELD, rulesetOf([SSH, PODS, NETS]));
    for (const { text, source } of [...prepare, ...swap]) {
      const policy = /-(ssh|pods|nets)-(in|close)/.exec(text.split(' ')[4] ?? '')?.[1];
      const own = /^add (chain|rule) /.test(text) ? policy : undefined;
      assert.equal(source?.policy, own, text);
    }
  });

  it('prints every part', () => {
    const held = unknown(rulesetOf([SSH, PODS, pod('a', '10.1.0.1')]));
    const done = transaction(held, rulesetOf([WEB, PODS, pod('a', '10.1.0.2')]));
    const text = transactionText(done);
    for (const [part, commands] of Object.entries(done)) {
      assert.ok(commands.length > 0, part);
      assert.match(text, new RegExp(`^# ${part}$`, 'm'), `${part} is not printed`);
    }
    for (const command of texts(done)) assert.ok(text.includes(`${command}\n`), command);
  });
});

const INPUT = { type: 'filter', hook: 'input', priority: 0, policy: 'accept' } as const;
const ORDER = ['flush chain', 'delete map', 'delete chain', 'delete set'];

describe('a transaction from what is not known', () => {
  const objects = [SSH, WEB, PODS, NETS, BOTH, pod('a', '10.1.0.1')];
  const ruleset = rulesetOf(objects);

  it('moves fixed chains aside and makes them new', () => {
    const { rename, prepare, sweep } = transaction(unknown(ruleset), ruleset);
    const fixed = [...ruleset.chains.values()].filter(({ fixed: yes }) => yes).map(({ name }) => name);
    assert.deepEqual(rename.map(({ text }) => text.split(' ')[4]).sort(), fixed.sort());
    const aside = rename.map(({ text }) => text.split(' ')[5] ?? '');
    assert.ok(aside.every((name) => /^stale-\d+$/.test(name)) && new Set(aside).size === aside.length);
    for (const name of fixed)
      assert.ok(
        prepare.some(({ text }) => text.startsWith(`add chain inet nodewall ${name}`)),
        name,
      );
    for (const name of aside)
      assert.ok(
        sweep.some(({ text }) => text === `delete chain inet nodewall ${name}`),
        name,
      );
  });

  it('takes no name that is in use', () => {
    const held = unknown(ruleset);
    const taken = new Map([
      ...held.chains,
      ['stale-0', { base: null, known: null }],
      ['stale-2', { base: null, known: null }],
    ]);
    const { rename } = transaction({ ...held, chains: taken }, ruleset);
    const aside = rename.map(({ text }) => text.split(' ')[5]);
    assert.ok(aside.includes('stale-1') && !aside.includes('stale-0') && !aside.includes('stale-2'));
  });

  it('moves a list aside with a rule that it leads to', () => {
    const held = heldAfter(ruleset);
    const list = [...ruleset.chains.keys()].find((name) => /-list-/.test(name));
    const target = [...ruleset.chains.keys()].find((name) => /-ssh-close$/.test(name));
    assert.ok(list !== undefined && target !== undefined);
    const chains = new Map<string, HeldChain>([...held.chains, [target, { base: null, known: null }]]);
    const done = transaction({ ...held, chains }, ruleset);
    const moved = done.rename.map(({ text }) => text.split(' ')[4]);
    assert.ok(moved.includes(list) && moved.includes(target));
    assert.ok(!moved.some((name) => /-web-close$/.test(name ?? '')));
  });
});

describe('a transaction removes what is not ours', () => {
  const ruleset = rulesetOf([SSH, PODS, pod('a', '10.1.0.1')]);
  const foreign: readonly (readonly [string, Partial<Held>, RegExp])[] = [
    ['chain', { chains: new Map([['x', { base: null, known: null }]]) }, /^delete chain inet nodewall x$/m],
    [
      'base chain',
      { chains: new Map([['x', { base: { ...INPUT, priority: 5 }, known: null }]]) },
      /^flush chain inet nodewall x\ndelete chain inet nodewall x$/m,
    ],
    [
      'set',
      {
        sets: new Map([
          [
            'x',
            {
              family: null,
              key: 'address',
              interval: true,
              members: { singles: new Uint8Array(), prefixes: [] },
            },
          ],
        ]),
      },
      /^delete set inet nodewall x$/m,
    ],
    ['map', { maps: new Map([['x', { isPortMap: false, entries: null }]]) }, /^delete map inet nodewall x$/m],
  ];
  for (const [kind, extra, expected] of foreign) {
    it(`a ${kind}`, () => {
      const held = heldAfter(ruleset);
      const done = transaction(
        {
          ...held,
          chains: new Map([...held.chains, ...(extra.chains ?? [])]),
          sets: new Map([...held.sets, ...(extra.sets ?? [])]),
          maps: new Map([...held.maps, ...(extra.maps ?? [])]),
        },
        ruleset,
      );
      assert.match(texts(done).join('\n'), expected);
      assert.deepEqual([done.rename, done.prepare, done.members, done.maps, done.swap], [[], [], [], [], []]);
    });
  }
});

describe('a transaction replaces the table', () => {
  const ruleset = rulesetOf([SSH, PODS, NETS, pod('a', '10.1.0.1')]);
  const held = heldAfter(ruleset);
  const [set] = ruleset.sets.values();
  const [map] = ruleset.maps.keys();
  assert.ok(set !== undefined && map !== undefined);
  const cases: readonly (readonly [string, Held])[] = [
    [
      'where a set has another type',
      { ...held, sets: new Map([...held.sets, [set.name, { ...set, family: set.family === 4 ? 6 : 4 }]]) },
    ],
    [
      'where a set is of no type of ours',
      { ...held, sets: new Map([...held.sets, [set.name, { ...set, family: null }]]) },
    ],
    [
      'where a set has intervals, or has none',
      { ...held, sets: new Map([...held.sets, [set.name, { ...set, interval: !set.interval }]]) },
    ],
    [
      'where a map has a name of a set',
      { ...held, maps: new Map([...held.maps, [set.name, { isPortMap: true, entries: new Map() }]]) },
    ],
    ['where a set has a name of a map', { ...held, sets: new Map([...held.sets, [map, set]]) }],
    [
      'where a port map is another map',
      { ...held, maps: new Map([...held.maps, [map, { isPortMap: false, entries: null }]]) },
    ],
    ...(['hook', 'priority', 'type'] as const).map((field): [string, Held] => {
      const base = INPUT;
      const other = {
        ...base,
        ...{ hook: { hook: 'output' }, priority: { priority: 1 }, type: { type: 'nat' } }[field],
      };
      const chains = new Map([...held.chains, ['input', { base: other as HeldChain['base'], known: null }]]);
      return [`where a base chain has another ${field}`, { ...held, chains }];
    }),
    [
      'where a base chain is none',
      { ...held, chains: new Map([...held.chains, ['input', { base: null, known: null }]]) },
    ],
  ];
  for (const [title, wrong] of cases) {
    it(title, async () => {
      const done = transaction(wrong, ruleset);
      const { swap, ...rest } = done;
      assert.deepEqual(Object.values(rest).flat(), []);
      assert.equal(swap.length, 1);
      const kernel = await loaded(rulesetOf([WEB]));
      await kernel.commands.run(`${swap[0]?.text}\n`);
      assert.deepEqual(await listing(kernel), await listing(await loaded(ruleset)));
    });
  }
});

describe('a transaction has an order that the kernel takes', () => {
  const states: Readonly<Record<string, readonly object[]>> = {
    nothing: [],
    ports: [SSH, WEB],
    sets: [PODS, NETS, pod('a', '10.1.0.1', 'fd00::1')],
    lists: [SSH, WEB, BOTH, NETS],
    all: [SSH, WEB, PODS, NETS, BOTH, pod('a', '10.1.0.1'), pod('a', '10.1.0.2')],
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
        // And again by somebody who knows nothing.
        await new NodeRuleReconciler(kernel).apply(desired);
        assert.deepEqual(await listing(kernel), await listing(await loaded(desired)));
      });
    }
  }
});
