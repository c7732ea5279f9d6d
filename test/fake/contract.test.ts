import assert from 'node:assert/strict';
import { NftError } from 'nftables-napi';
import type { Kernel } from '../../agent/apply/netlink/kernel.ts';
import type { Command, ElementsCommand } from '../../agent/apply/plan/command.ts';
import type { BaseChain, Chain, NamedSet, NftRule, Statement } from '../../agent/render/ruleset.ts';
import type { VerdictMap } from '../../agent/render/verdict-map.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { fakeKernel, listing } from './fake-kernel.ts';
import { type RealKernel, realKernel } from './real-kernel.ts';

/** The commands of one transaction. */
type Step = readonly Command[];

interface Case {
  readonly name: string;
  /** All succeed. */
  readonly given?: readonly Step[];
  readonly step: Step;
  /** Refused with this code, at this command (from 0); absent: done. */
  readonly refused?: readonly [code: string, place: number];
  /** What only the fake refuses, and why. */
  readonly strict?: string;
  /** Lines of the listing afterwards: `chain a`, `map m 2`. */
  readonly holds?: readonly string[];
}

const makeTable: Command = { kind: 'addTable' };
const noTable: Command = { kind: 'deleteTable' };
const chain = (name: string, base: BaseChain | null = null): Command => ({
  kind: 'addChain',
  chain: { name, base, fixed: false, rules: [], source: null, ruleId: null } satisfies Chain,
});
const INPUT = { type: 'filter', hook: 'input', priority: 0, policy: 'accept' } as const;
const flush = (name: string): Command => ({ kind: 'flushChain', name });
const noChain = (name: string): Command => ({ kind: 'deleteChain', name });
const noSet = (name: string): Command => ({ kind: 'deleteSet', name });
const rename = (name: string, to: string): Command => ({ kind: 'renameChain', name, to, handle: 0 });
const rule = (
  chainName: string,
  statement: Statement,
  { matches = [], counter = false, comment = null }: Partial<NftRule> = {},
): Command => ({
  kind: 'addRule',
  chain: chainName,
  rule: { matches, counter, statement, comment },
  source: null,
});
const jumps = (from: string, to: string): Command => rule(from, { kind: 'jump', chain: to });
const set = (name: string, changes: Partial<NamedSet> = {}): Command => ({
  kind: 'addSet',
  set: {
    name,
    family: 4,
    key: 'address',
    interval: false,
    members: { singles: new Uint8Array(), prefixes: [] },
    comment: 'hosts',
    ...changes,
  },
});
const map = (name: string, changes: Partial<VerdictMap> = {}): Command => ({
  kind: 'addMap',
  map: {
    name,
    key: changes.family == null ? 'port' : 'address',
    family: null,
    interval: false,
    fixed: false,
    keys: new Uint8Array(),
    targets: new Uint32Array(),
    verdicts: [],
    ...changes,
  },
});
const fromSet: NftRule['matches'] = [{ match: 'address', family: 4, field: 'saddr', in: { set: 's' } }];
const byPort: Statement = { kind: 'portMap', protocol: 'tcp', field: 'dport', original: false, map: 'm' };

const TABLE = [makeTable];
const A = [...TABLE, chain('a')];
const AB = [...A, chain('b')];
const BASE = chain('input', INPUT);
const SET = [...TABLE, set('s')];
const RANGES = [...TABLE, set('r', { interval: true, comment: 'nets' })];
const MAP = [...AB, map('m')];

const bytes = (...numbers: readonly number[]) => Uint8Array.from(numbers);
type Change = 'addElements' | 'deleteElements';
const keys = (kind: Change, ...hosts: readonly number[]): ElementsCommand => ({
  kind,
  set: 's',
  keyLength: 4,
  interval: false,
  keys: bytes(...hosts.flatMap((host) => [10, 0, 0, host])),
});
const ranges = (kind: Change, ...pairs: readonly (readonly [number, number])[]): ElementsCommand => ({
  kind,
  set: 'r',
  keyLength: 4,
  interval: true,
  keys: bytes(...pairs.flatMap(([from, to]) => [10, 0, 0, from, 10, 0, 0, to])),
});
const jump = (name: string) => ({ kind: 'jump', chain: name }) as const;
const ports = (kind: Change, port: number, name: string): ElementsCommand => ({
  kind,
  set: 'm',
  keyLength: 2,
  interval: false,
  keys: bytes(port >> 8, port & 255),
  ...(kind === 'addElements' ? { targets: Uint32Array.of(0), verdicts: [jump(name)] } : {}),
});
/** A chain of so many chains, each jumping to the next. */
const deep = (count: number): Command[] => [
  ...Array.from({ length: count }, (_, i) => chain(`d${i}`)),
  ...Array.from({ length: count - 1 }, (_, i) => jumps(`d${i}`, `d${i + 1}`)),
];

const CASES: readonly Case[] = [
  { name: 'a table', step: TABLE, holds: [] },
  { name: 'a table that is there', given: [TABLE], step: TABLE, holds: [] },
  { name: 'a chain without a table', step: [chain('a')], refused: ['ENOENT', 0] },
  { name: 'a chain', step: A, holds: ['chain a'] },
  { name: 'a chain that is there', given: [A], step: [chain('a')], strict: 'a plan that is out of date' },
  { name: 'a base chain', step: [...TABLE, BASE], holds: ['chain input filter input 0 accept'] },
  {
    name: 'a policy set back',
    given: [[...TABLE, BASE]],
    step: [BASE],
    holds: ['chain input filter input 0 accept'],
  },
  {
    name: 'a base chain at another priority',
    given: [[...TABLE, BASE]],
    step: [chain('input', { ...INPUT, priority: 1 })],
    refused: ['EOPNOTSUPP', 0],
  },
  {
    name: 'a name of 255 characters',
    step: [...TABLE, chain('n'.repeat(255))],
    holds: [`chain ${'n'.repeat(255)}`],
  },
  { name: 'a deleted chain', given: [AB], step: [noChain('a')], holds: ['chain b'] },
  { name: 'deleting a chain that is not there', given: [A], step: [noChain('b')], refused: ['ENOENT', 0] },
  {
    name: 'deleting a chain with rules',
    given: [[...AB, jumps('a', 'b')]],
    step: [noChain('a')],
    holds: ['chain b'],
  },
  {
    name: 'deleting a chain that is jumped to',
    given: [[...AB, jumps('a', 'b')]],
    step: [noChain('b')],
    refused: ['EBUSY', 0],
  },
  {
    name: 'deleting a chain that was jumped to, after the flush',
    given: [[...AB, jumps('a', 'b')]],
    step: [flush('a'), noChain('b')],
    holds: ['chain a'],
  },
  {
    name: 'deleting a chain that a map leads to',
    given: [MAP, [ports('addElements', 22, 'b')]],
    step: [noChain('b')],
    refused: ['EBUSY', 0],
  },
  {
    name: 'deleting a map, then the chain it led to',
    given: [MAP, [ports('addElements', 22, 'b')]],
    step: [noSet('m'), noChain('b')],
    holds: ['chain a'],
  },
  {
    name: 'deleting a key, then the chain it led to',
    given: [MAP, [ports('addElements', 22, 'b')]],
    step: [ports('deleteElements', 22, ''), noChain('b')],
    holds: ['chain a', 'map m 2'],
  },
  {
    name: 'a rule',
    given: [A],
    step: [rule('a', { kind: 'accept' }, { counter: true, comment: 'p/r' })],
    holds: ['chain a: p/r'],
  },
  {
    name: 'a rule in a chain that is not there',
    given: [A],
    step: [rule('b', { kind: 'accept' })],
    refused: ['ENOENT', 0],
  },
  {
    name: 'a jump to a chain that is not there',
    given: [A],
    step: [jumps('a', 'b')],
    refused: ['ENOENT', 0],
  },
  {
    name: 'a jump to a chain of the same transaction',
    given: [A],
    step: [chain('b'), jumps('a', 'b')],
    holds: ['chain a: -', 'chain b'],
  },
  {
    name: 'a jump to a base chain',
    given: [[...A, BASE]],
    step: [jumps('a', 'input')],
    refused: ['EOPNOTSUPP', 0],
  },
  {
    name: 'a set that is not there in a rule',
    given: [A],
    step: [rule('a', { kind: 'accept' }, { matches: fromSet })],
    refused: ['ENOENT', 0],
  },
  {
    name: 'a set, its elements and a rule that names it in one transaction',
    step: [...SET, keys('addElements', 1), chain('a'), rule('a', { kind: 'accept' }, { matches: fromSet })],
    holds: ['chain a: -', 'set s 4: 0a000001'],
  },
  {
    name: 'a map, a rule that names it and its elements in one transaction',
    step: [...MAP, rule('a', byPort), ports('addElements', 22, 'b')],
    holds: ['chain a: -', 'chain b', 'map m 2: 0016 jump b'],
  },
  {
    name: 'a comment of 128 bytes',
    given: [A],
    step: [rule('a', { kind: 'accept' }, { comment: 'c'.repeat(128) })],
    holds: [`chain a: ${'c'.repeat(128)}`],
  },
  { name: 'chains 16 deep', given: [[...TABLE, BASE, ...deep(15)]], step: [jumps('input', 'd0')] },
  {
    name: 'chains 17 deep',
    given: [[...TABLE, BASE, ...deep(16)]],
    step: [jumps('input', 'd0')],
    refused: ['EMLINK', 0],
  },
  {
    name: 'half of a transaction that fails',
    given: [A],
    step: [chain('b'), noChain('c')],
    refused: ['ENOENT', 1],
    holds: ['chain a'],
  },
  {
    name: 'a renamed chain',
    given: [[...AB, jumps('a', 'b')]],
    step: [rename('b', 'c')],
    holds: ['chain a: -', 'chain c'],
  },
  {
    name: 'a renamed chain is held by who jumps to it',
    given: [[...AB, jumps('a', 'b')], [rename('b', 'c')]],
    step: [noChain('c')],
    refused: ['EBUSY', 0],
  },
  { name: 'renaming to what is there', given: [AB], step: [rename('a', 'b')], refused: ['EEXIST', 0] },
  {
    name: 'a map leads to a renamed chain',
    given: [MAP, [ports('addElements', 22, 'b')]],
    step: [rename('b', 'c')],
    holds: ['chain a', 'chain c', 'map m 2: 0016 jump c'],
  },
  {
    name: 'an old name given to a new chain',
    given: [[...AB, jumps('a', 'b')], [rename('b', 'c')]],
    step: [chain('b')],
    holds: ['chain a: -', 'chain b', 'chain c'],
  },
  { name: 'a set', step: SET, holds: ['set s 4'] },
  { name: 'a set that is there', given: [SET], step: [set('s')], strict: 'a plan that is out of date' },
  { name: 'a set of another type', given: [SET], step: [set('s', { family: 6 })], refused: ['EEXIST', 0] },
  {
    name: 'sets of services',
    step: [...TABLE, set('s', { key: 'service' }), set('t', { key: 'service', family: 6 })],
    holds: ['set s 12', 'set t 24'],
  },
  {
    name: 'maps by addresses and by ranges',
    step: [
      ...TABLE,
      map('m', { family: 4 }),
      map('n', { family: 6, interval: true }),
      map('o', { interval: true }),
    ],
    holds: ['map m 4', 'map n 16 interval', 'map o 2 interval'],
  },
  {
    name: 'a set in use',
    given: [[...SET, chain('a'), rule('a', { kind: 'accept' }, { matches: fromSet })]],
    step: [noSet('s')],
    refused: ['EBUSY', 0],
  },
  { name: 'a map in use', given: [[...MAP, rule('a', byPort)]], step: [noSet('m')], refused: ['EBUSY', 0] },
  { name: 'a deleted set', given: [SET, [keys('addElements', 1)]], step: [noSet('s')], holds: [] },
  { name: 'a set that is not there', given: [TABLE], step: [noSet('s')], refused: ['ENOENT', 0] },
  { name: 'a deleted table', given: [[...MAP, rule('a', byPort)]], step: [noTable] },
  { name: 'a table that is not there', step: [noTable], refused: ['ENOENT', 0] },
  {
    name: 'a table in place of another',
    given: [[...MAP, BASE, jumps('input', 'a'), rule('a', byPort), ports('addElements', 22, 'b')]],
    step: [
      makeTable,
      noTable,
      ...[...MAP, BASE, jumps('input', 'a'), rule('a', byPort), ports('addElements', 23, 'b')],
    ],
    holds: ['chain a: -', 'chain b', 'chain input filter input 0 accept: -', 'map m 2: 0017 jump b'],
  },
  {
    name: 'added keys',
    given: [SET],
    step: [keys('addElements', 2, 1)],
    holds: ['set s 4: 0a000001, 0a000002'],
  },
  {
    name: 'a key that is there',
    given: [SET, [keys('addElements', 1)]],
    step: [keys('addElements', 1)],
    strict: 'a plan that is out of date',
  },
  {
    name: 'a deleted key',
    given: [SET, [keys('addElements', 1, 2)]],
    step: [keys('deleteElements', 1)],
    holds: ['set s 4: 0a000002'],
  },
  {
    name: 'a key that is not there',
    given: [SET, [keys('addElements', 1)]],
    step: [keys('addElements', 2), keys('deleteElements', 3)],
    refused: ['ENOENT', 1],
    holds: ['set s 4: 0a000001'],
  },
  {
    name: 'keys of a set that is not there',
    given: [TABLE],
    step: [keys('addElements', 1)],
    refused: ['ENOENT', 0],
  },
  { name: 'keys of a table that is not there', step: [keys('addElements', 1)], refused: ['ENOENT', 0] },
  {
    name: 'a key of another length',
    given: [SET],
    step: [{ ...keys('addElements', 1), keyLength: 2 }],
    refused: ['EINVAL', 0],
  },
  {
    name: 'a range in a hash set',
    given: [SET],
    step: [{ ...ranges('addElements', [1, 2]), set: 's' }],
    refused: ['EINVAL', 0],
  },
  {
    name: 'a map element without a verdict',
    given: [MAP],
    step: [{ ...keys('addElements'), set: 'm', keyLength: 2, keys: bytes(0, 22) }],
    refused: ['EINVAL', 0],
  },
  {
    name: 'added ranges',
    given: [RANGES],
    step: [ranges('addElements', [9, 9], [0, 7])],
    holds: ['set r 4 interval: 0a0000000a000007, 0a0000090a000009'],
  },
  {
    name: 'ranges that touch',
    given: [RANGES],
    step: [ranges('addElements', [0, 7], [8, 15])],
    holds: ['set r 4 interval: 0a0000000a000007, 0a0000080a00000f'],
  },
  {
    name: 'ranges that overlap',
    given: [RANGES, [ranges('addElements', [0, 7])]],
    step: [ranges('addElements', [7, 9])],
    refused: ['EEXIST', 0],
  },
  {
    name: 'a range within another',
    given: [RANGES, [ranges('addElements', [0, 7])]],
    step: [ranges('addElements', [3, 4])],
    refused: ['EEXIST', 0],
  },
  {
    name: 'a part of a range',
    given: [RANGES, [ranges('addElements', [0, 7])]],
    step: [ranges('deleteElements', [0, 3])],
    refused: ['ENOENT', 0],
  },
  {
    name: 'a range for its parts',
    given: [RANGES, [ranges('addElements', [0, 3], [9, 9])]],
    step: [ranges('deleteElements', [0, 3], [9, 9]), ranges('addElements', [0, 15])],
    holds: ['set r 4 interval: 0a0000000a00000f'],
  },
  {
    name: 'a part for a range',
    given: [RANGES, [ranges('addElements', [0, 15])]],
    step: [ranges('deleteElements', [0, 15]), ranges('addElements', [4, 4])],
    holds: ['set r 4 interval: 0a0000040a000004'],
  },
  {
    name: 'added ports',
    given: [MAP],
    step: [ports('addElements', 443, 'a'), ports('addElements', 22, 'b')],
    holds: ['chain a', 'chain b', 'map m 2: 0016 jump b, 01bb jump a'],
  },
  {
    name: 'a port that leads to another chain',
    given: [MAP, [ports('addElements', 22, 'a')]],
    step: [ports('addElements', 22, 'b')],
    refused: ['EEXIST', 0],
  },
  {
    name: 'a replaced port',
    given: [MAP, [ports('addElements', 22, 'a')]],
    step: [ports('deleteElements', 22, ''), ports('addElements', 22, 'b')],
    holds: ['chain a', 'chain b', 'map m 2: 0016 jump b'],
  },
  {
    name: 'a port to a chain that is not there',
    given: [MAP],
    step: [ports('addElements', 22, 'c')],
    refused: ['ENOENT', 0],
  },
  {
    name: 'a flushed set',
    given: [SET, [keys('addElements', 1, 2)]],
    step: [{ ...keys('addElements'), kind: 'flushElements' }],
    holds: ['set s 4'],
  },
];

/** A rename has the handle that its chain has in this kernel; 0 where there is none. */
async function run(kernel: Kernel, step: Step): Promise<void> {
  const renames = step.some(({ kind }) => kind === 'renameChain');
  const handles = new Map(
    (renames ? await kernel.snapshot() : null)?.chains.map(({ name, handle }) => [name, handle]),
  );
  await kernel.transact(
    step.map((one) => (one.kind === 'renameChain' ? { ...one, handle: handles.get(one.name) ?? 0 } : one)),
  );
}

async function refusal(kernel: Kernel, step: Step): Promise<readonly [string, number] | undefined> {
  try {
    await run(kernel, step);
    return undefined;
  } catch (error) {
    assert(error instanceof NftError, String(error));
    return [error.code, error.operation ?? -1];
  }
}

/** As the table of cases writes it: digests are left out, a rule without a comment is a dash. */
async function lines(kernel: Kernel): Promise<string[]> {
  const found = Object.entries((await listing(kernel)) ?? {});
  return found.map(([title, items]) => {
    const texts = title.startsWith('chain') ? items.map((item) => item.slice(17) || '-') : items;
    return texts.length === 0 ? title : `${title}: ${texts.join(', ')}`;
  });
}

function contract(open: () => Promise<{ kernel: Kernel; isFake: boolean }>): void {
  let kernel: Kernel;
  let isFake: boolean;
  before(async () => {
    ({ kernel, isFake } = await open());
  });
  beforeEach(async () => {
    if ((await kernel.snapshot()) !== null) await run(kernel, [noTable]);
  });

  for (const { name: title, given = [], step, refused, strict, holds } of CASES) {
    it(title, async () => {
      for (const before of given) await run(kernel, before);
      const found = await refusal(kernel, step);
      if (strict !== undefined && isFake) assert.equal(found?.[0], 'EEXIST', strict);
      else assert.deepEqual(found, refused);
      if (holds !== undefined) assert.deepEqual(await lines(kernel), holds);
    });
  }

  it('a generation counts commits', async () => {
    const { generation: first } = await kernel.transact(A);
    assert.equal(first.after, first.before + 1);
    assert.equal(await kernel.generation(), first.after);
    await assert.rejects(run(kernel, [noChain('b')]));
    const { generation: second } = await kernel.transact([chain('b')]);
    assert.deepEqual(second, { before: first.after, after: first.after + 1 });
    assert.equal((await kernel.snapshot())?.generation, second.after);
    assert.equal((await kernel.chains(['a'])).generation, second.after);
    const { generation: none } = await kernel.transact([]);
    assert.deepEqual(none, { before: second.after, after: second.after });
  });

  it('digests are equal for equal rules only', async () => {
    const accept: Statement = { kind: 'accept' };
    await run(kernel, [
      ...AB,
      chain('c'),
      rule('a', accept, { counter: true, comment: 'x' }),
      rule('a', accept, { counter: true, comment: 'y' }),
      rule('a', accept),
      jumps('a', 'b'),
      jumps('a', 'c'),
    ]);
    const digests = await digestsOf(kernel, 'a');
    assert.equal(digests[0], digests[1]);
    assert.equal(new Set(digests).size, 4);
    await run(kernel, [rename('b', 'old')]);
    const after = await digestsOf(kernel, 'a');
    assert.notEqual(after[3], digests[3], 'a jump to a renamed chain reads otherwise');
    assert.deepEqual(after.toSpliced(3, 1), digests.toSpliced(3, 1));
  });

  it('chains are read singly as in a snapshot', async () => {
    await run(kernel, [...AB, BASE, jumps('input', 'a'), rule('a', { kind: 'drop' }, { counter: true })]);
    const whole = await kernel.snapshot();
    const { chains } = await kernel.chains(['a', 'input', 'x']);
    assert.deepEqual(
      chains.map(({ name }) => name),
      ['a', 'input'],
    );
    for (const one of chains)
      assert.deepEqual(
        one,
        whole?.chains.find(({ name }) => name === one.name),
      );
  });

  it('missing objects are null', async () => {
    assert.equal(await kernel.snapshot(), null);
    assert.equal(await kernel.elements('s'), null);
    assert.deepEqual((await kernel.chains(['a'])).chains, []);
    await run(kernel, TABLE);
    assert.equal(await kernel.elements('s'), null);
  });
}

async function digestsOf(kernel: Kernel, name: string): Promise<string[]> {
  const found = (await kernel.snapshot())?.chains.find((one) => one.name === name);
  return (found?.rules ?? []).map(({ digest }) => digest);
}

describe('the fake kernel', () => {
  contract(async () => ({ kernel: fakeKernel(), isFake: true }));
});

kernelSuite('the real kernel', () => {
  let real: RealKernel | undefined;
  contract(async () => {
    real = await realKernel();
    return { kernel: real, isFake: false };
  });
  after(() => real?.close());
});
