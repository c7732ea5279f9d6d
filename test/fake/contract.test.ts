import assert from 'node:assert/strict';
import { NftError, type SetOperation, type Verdict } from 'nftables-napi';
import type { Kernel } from '../../agent/apply/kernel.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { fakeKernel } from './fakekernel.ts';
import { listing } from './listing.ts';
import { type RealKernel, realKernel } from './realkernel.ts';

/** Lines of text for one run, or the operations of one batch. */
type Step = readonly string[] | readonly SetOperation[];

interface Case {
  readonly name: string;
  /** All succeed. */
  readonly given?: readonly Step[];
  readonly step: Step;
  /** Refused with this code, at this line (from 1) or operation (from 0); absent: done. */
  readonly refused?: readonly [code: string, place: number];
  /** What only the fake refuses, and why. */
  readonly strict?: string;
  /** Lines of the listing afterwards: `chain a`, `map m 2`. */
  readonly holds?: readonly string[];
}

const t = 'inet nodewall';
const TABLE = [`add table ${t}`];
const A = [...TABLE, `add chain ${t} a`];
const AB = [...A, `add chain ${t} b`];
const BASE = `add chain ${t} input { type filter hook input priority 0; policy accept; }`;
const SET = [...TABLE, `add set ${t} s { type ipv4_addr; comment "hosts"; }`];
const RANGES = [...TABLE, `add set ${t} r { type ipv4_addr; flags interval; comment "nets"; }`];
const MAP = [...AB, `add map ${t} m { type inet_service : verdict; }`];

const jump = (chain: string): Verdict => ({ kind: 'jump', chain });
const bytes = (...numbers: readonly number[]) => Uint8Array.from(numbers);
const name = (set: string) => ({ family: 'inet', table: 'nodewall', set }) as const;
const keys = (op: 'add' | 'delete', ...hosts: readonly number[]): SetOperation => ({
  ...name('s'),
  op,
  keyLength: 4,
  keys: bytes(...hosts.flatMap((host) => [10, 0, 0, host])),
});
const ranges = (op: 'add' | 'delete', ...pairs: readonly (readonly [number, number])[]): SetOperation => ({
  ...name('r'),
  op,
  keyLength: 4,
  ranges: bytes(...pairs.flatMap(([from, to]) => [10, 0, 0, from, 10, 0, 0, to])),
});
const ports = (op: 'add' | 'delete', port: number, chain: string): SetOperation => ({
  ...name('m'),
  op,
  keyLength: 2,
  keys: bytes(port >> 8, port & 255),
  ...(op === 'add' ? { verdicts: [jump(chain)] } : {}),
});
/** A chain of so many chains, each jumping to the next. */
const deep = (count: number) => [
  ...Array.from({ length: count }, (_, i) => `add chain ${t} d${i}`),
  ...Array.from({ length: count - 1 }, (_, i) => `add rule ${t} d${i} jump d${i + 1}`),
];

const CASES: readonly Case[] = [
  { name: 'a table', step: TABLE, holds: [] },
  { name: 'a table that is there', given: [TABLE], step: TABLE, holds: [] },
  { name: 'a chain without a table', step: [`add chain ${t} a`], refused: ['ENOENT', 1] },
  { name: 'a chain', step: A, holds: ['chain a'] },
  {
    name: 'a chain that is there',
    given: [A],
    step: [`add chain ${t} a`],
    strict: 'a plan that is out of date',
  },
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
    step: [BASE.replace('priority 0', 'priority 1')],
    refused: ['EOPNOTSUPP', 1],
  },
  {
    name: 'a name of 255 characters',
    step: [...TABLE, `add chain ${t} ${'n'.repeat(255)}`],
    holds: [`chain ${'n'.repeat(255)}`],
  },
  {
    name: 'a name of 256 characters',
    step: [...TABLE, `add chain ${t} ${'n'.repeat(256)}`],
    refused: ['ERANGE', 2],
  },
  { name: 'a deleted chain', given: [AB], step: [`delete chain ${t} a`], holds: ['chain b'] },
  {
    name: 'deleting a chain that is not there',
    given: [A],
    step: [`delete chain ${t} b`],
    refused: ['ENOENT', 1],
  },
  {
    name: 'deleting a chain with rules',
    given: [[...AB, `add rule ${t} a jump b`]],
    step: [`delete chain ${t} a`],
    holds: ['chain b'],
  },
  {
    name: 'deleting a chain that is jumped to',
    given: [[...AB, `add rule ${t} a jump b`]],
    step: [`delete chain ${t} b`],
    refused: ['EBUSY', 1],
  },
  {
    name: 'deleting a chain that was jumped to, after the flush',
    given: [[...AB, `add rule ${t} a jump b`]],
    step: [`flush chain ${t} a`, `delete chain ${t} b`],
    holds: ['chain a'],
  },
  {
    name: 'deleting a chain that a map leads to',
    given: [MAP, [ports('add', 22, 'b')]],
    step: [`delete chain ${t} b`],
    refused: ['EBUSY', 1],
  },
  {
    name: 'deleting a map, then the chain it led to',
    given: [MAP, [ports('add', 22, 'b')]],
    step: [`delete map ${t} m`, `delete chain ${t} b`],
    holds: ['chain a'],
  },
  {
    name: 'a rule',
    given: [A],
    step: [`add rule ${t} a tcp dport 22 counter accept comment "p/r"`],
    holds: ['chain a: p/r'],
  },
  {
    name: 'a rule in a chain that is not there',
    given: [A],
    step: [`add rule ${t} b counter accept`],
    refused: ['ENOENT', 1],
  },
  {
    name: 'a jump to a chain that is not there',
    given: [A],
    step: [`add rule ${t} a jump b`],
    refused: ['ENOENT', 1],
  },
  {
    name: 'a jump to a chain of the same text',
    given: [A],
    step: [`add chain ${t} b`, `add rule ${t} a jump b`],
    holds: ['chain a: -', 'chain b'],
  },
  {
    name: 'a jump to a base chain',
    given: [[...A, BASE]],
    step: [`add rule ${t} a jump input`],
    refused: ['EOPNOTSUPP', 1],
  },
  {
    name: 'a set that is not there in a rule',
    given: [A],
    step: [`add rule ${t} a ip saddr @s accept`],
    refused: ['ENOENT', 1],
  },
  { name: 'not a rule', given: [A], step: [`add rule ${t} a accept drop nonsense`], refused: ['SYNTAX', 1] },
  {
    name: 'a comment of 128 bytes',
    given: [A],
    step: [`add rule ${t} a accept comment "${'c'.repeat(128)}"`],
    holds: [`chain a: ${'c'.repeat(128)}`],
  },
  {
    name: 'a comment of 129 bytes',
    given: [A],
    step: [`add rule ${t} a accept comment "${'c'.repeat(129)}"`],
    refused: ['SYNTAX', 1],
  },
  { name: 'chains 16 deep', given: [[...TABLE, BASE, ...deep(15)]], step: [`add rule ${t} input jump d0`] },
  {
    name: 'chains 17 deep',
    given: [[...TABLE, BASE, ...deep(16)]],
    step: [`add rule ${t} input jump d0`],
    refused: ['EMLINK', 1],
  },
  {
    name: 'half of a text that fails',
    given: [A],
    step: [`add chain ${t} b`, `delete chain ${t} c`],
    refused: ['ENOENT', 2],
    holds: ['chain a'],
  },
  {
    name: 'a renamed chain',
    given: [[...AB, `add rule ${t} a jump b`]],
    step: [`rename chain ${t} b c`],
    holds: ['chain a: -', 'chain c'],
  },
  {
    name: 'a renamed chain is held by who jumps to it',
    given: [[...AB, `add rule ${t} a jump b`], [`rename chain ${t} b c`]],
    step: [`delete chain ${t} c`],
    refused: ['EBUSY', 1],
  },
  { name: 'renaming what is not there', given: [A], step: [`rename chain ${t} b c`], refused: ['ENOENT', 1] },
  { name: 'renaming to what is there', given: [AB], step: [`rename chain ${t} a b`], refused: ['EEXIST', 1] },
  {
    name: 'a map leads to a renamed chain',
    given: [MAP, [ports('add', 22, 'b')]],
    step: [`rename chain ${t} b c`],
    holds: ['chain a', 'chain c', 'map m 2: 0016 jump c'],
  },
  {
    name: 'an old name given to a new chain',
    given: [[...AB, `add rule ${t} a jump b`], [`rename chain ${t} b c`]],
    step: [`add chain ${t} b`],
    holds: ['chain a: -', 'chain b', 'chain c'],
  },
  { name: 'a set', step: SET, holds: ['set s 4'] },
  {
    name: 'a set that is there',
    given: [SET],
    step: [`add set ${t} s { type ipv4_addr; comment "hosts"; }`],
    strict: 'a plan that is out of date',
  },
  {
    name: 'a set of another type',
    given: [SET],
    step: [`add set ${t} s { type ipv6_addr; comment "hosts"; }`],
    refused: ['EEXIST', 1],
  },
  {
    name: 'a set in use',
    given: [[...SET, `add chain ${t} a`, `add rule ${t} a ip saddr @s accept`]],
    step: [`delete set ${t} s`],
    refused: ['EBUSY', 1],
  },
  {
    name: 'a map in use',
    given: [[...MAP, `add rule ${t} a tcp dport vmap @m`]],
    step: [`delete map ${t} m`],
    refused: ['EBUSY', 1],
  },
  { name: 'a deleted set', given: [SET, [keys('add', 1)]], step: [`delete set ${t} s`], holds: [] },
  { name: 'a set that is not there', given: [TABLE], step: [`delete set ${t} s`], refused: ['ENOENT', 1] },
  {
    name: 'a deleted table',
    given: [[...MAP, `add rule ${t} a tcp dport vmap @m`]],
    step: [`delete table ${t}`],
  },
  { name: 'a table that is not there', step: [`delete table ${t}`], refused: ['ENOENT', 1] },
  { name: 'added keys', given: [SET], step: [keys('add', 2, 1)], holds: ['set s 4: 0a000001, 0a000002'] },
  {
    name: 'a key that is there',
    given: [SET, [keys('add', 1)]],
    step: [keys('add', 1)],
    strict: 'a plan that is out of date',
  },
  {
    name: 'a deleted key',
    given: [SET, [keys('add', 1, 2)]],
    step: [keys('delete', 1)],
    holds: ['set s 4: 0a000002'],
  },
  {
    name: 'a key that is not there',
    given: [SET, [keys('add', 1)]],
    step: [keys('add', 2), keys('delete', 3)],
    refused: ['ENOENT', 1],
    holds: ['set s 4: 0a000001'],
  },
  { name: 'keys of a set that is not there', given: [TABLE], step: [keys('add', 1)], refused: ['ENOENT', 0] },
  { name: 'keys of a table that is not there', step: [keys('add', 1)], refused: ['ENOENT', 0] },
  {
    name: 'a key of another length',
    given: [SET],
    step: [{ ...name('s'), op: 'add', keyLength: 2, keys: bytes(1, 2) }],
    refused: ['EINVAL', 0],
  },
  {
    name: 'a range in a hash set',
    given: [SET],
    step: [{ ...ranges('add', [1, 2]), set: 's' }],
    refused: ['EINVAL', 0],
  },
  {
    name: 'a verdict in a set',
    given: [[...SET, `add chain ${t} a`]],
    step: [{ ...keys('add', 1), verdicts: [jump('a')] } as SetOperation],
    refused: ['EINVAL', 0],
  },
  {
    name: 'a map element without a verdict',
    given: [MAP],
    step: [{ ...name('m'), op: 'add', keyLength: 2, keys: bytes(0, 22) }],
    refused: ['EINVAL', 0],
  },
  {
    name: 'added ranges',
    given: [RANGES],
    step: [ranges('add', [9, 9], [0, 7])],
    holds: ['set r 4 interval: 0a0000000a000007, 0a0000090a000009'],
  },
  {
    name: 'ranges that touch',
    given: [RANGES],
    step: [ranges('add', [0, 7], [8, 15])],
    holds: ['set r 4 interval: 0a0000000a000007, 0a0000080a00000f'],
  },
  {
    name: 'ranges that overlap',
    given: [RANGES, [ranges('add', [0, 7])]],
    step: [ranges('add', [7, 9])],
    refused: ['EEXIST', 0],
  },
  {
    name: 'a range within another',
    given: [RANGES, [ranges('add', [0, 7])]],
    step: [ranges('add', [3, 4])],
    refused: ['EEXIST', 0],
  },
  {
    name: 'a part of a range',
    given: [RANGES, [ranges('add', [0, 7])]],
    step: [ranges('delete', [0, 3])],
    refused: ['ENOENT', 0],
  },
  {
    name: 'a range for its parts',
    given: [RANGES, [ranges('add', [0, 3], [9, 9])]],
    step: [ranges('delete', [0, 3], [9, 9]), ranges('add', [0, 15])],
    holds: ['set r 4 interval: 0a0000000a00000f'],
  },
  {
    name: 'a part for a range',
    given: [RANGES, [ranges('add', [0, 15])]],
    step: [ranges('delete', [0, 15]), ranges('add', [4, 4])],
    holds: ['set r 4 interval: 0a0000040a000004'],
  },
  {
    name: 'added ports',
    given: [MAP],
    step: [ports('add', 443, 'a'), ports('add', 22, 'b')],
    holds: ['chain a', 'chain b', 'map m 2: 0016 jump b, 01bb jump a'],
  },
  {
    name: 'a port that leads to another chain',
    given: [MAP, [ports('add', 22, 'a')]],
    step: [ports('add', 22, 'b')],
    refused: ['EEXIST', 0],
  },
  {
    name: 'a replaced port',
    given: [MAP, [ports('add', 22, 'a')]],
    step: [ports('delete', 22, ''), ports('add', 22, 'b')],
    holds: ['chain a', 'chain b', 'map m 2: 0016 jump b'],
  },
  {
    name: 'a port to a chain that is not there',
    given: [MAP],
    step: [ports('add', 22, 'c')],
    refused: ['ENOENT', 0],
  },
  {
    name: 'a flushed set',
    given: [SET, [keys('add', 1, 2)]],
    step: [{ ...name('s'), op: 'flush' }],
    holds: ['set s 4'],
  },
  {
    name: 'a table as one block, in place of another',
    given: [SET],
    step: [
      `add table ${t}`,
      `delete table ${t}`,
      `table ${t} {`,
      ...[
        '\tset s {',
        '\t\ttype ipv6_addr',
        '\t\tflags interval',
        '\t\tcomment "x"',
        '\t\telements = { fd00::/64, fd01::1 }',
        '\t}',
      ],
      ...['\tmap m {', '\t\ttype inet_service : verdict', '\t\telements = { 22 : jump a }', '\t}'],
      ...[
        '\tchain input {',
        '\t\ttype filter hook input priority 0; policy accept;',
        '\t\ttcp dport vmap @m',
        '\t}',
      ],
      ...[
        '\tchain a {',
        '\t\tip6 saddr @s counter goto b comment "p/r"',
        '\t}',
        '\tchain b {',
        '\t\tdrop',
        '\t}',
      ],
      '}',
    ],
    holds: [
      'chain a: p/r',
      'chain b: -',
      'chain input filter input 0 accept: -',
      'map m 2: 0016 jump a',
      `set s 16 interval: fd00${'0'.repeat(28)}fd00${'0'.repeat(12)}${'f'.repeat(16)}, fd01${'0'.repeat(27)}1fd01${'0'.repeat(27)}1`,
    ],
  },
];

/** Every form of rule that render writes. */
const RULES = [
  'ct state established,related accept',
  'iif "lo" accept',
  'oifgroup 8 accept comment "exemption localPods"',
  'meta nfproto ipv4 udp sport 67 udp dport 68 accept',
  'icmpv6 type { 133, 134, 135, 136 } accept',
  'icmp type 8 icmp code 0 counter accept',
  'icmp type . icmp code { 3 . 0-255, 8 . 0 } counter drop',
  'igmp type { 17, 22 } ip daddr 224.0.0.1 counter drop',
  'meta l4proto { tcp, udp } counter accept',
  'meta l4proto icmpv6 counter drop',
  'tcp dport { 22, 80-90 } ip6 saddr fd00::/64 counter goto z',
  'sctp sport 1-1023 counter drop',
  'meta l4proto . th dport { tcp . 22, udp . 53-60 } counter accept',
  'meta l4proto . th sport . th dport { tcp . 1-65535 . 22, udp . 53 . 0-65535 } ip saddr 10.0.0.0/8 counter accept',
  'meta l4proto vmap { tcp : goto z, icmp : jump z }',
  'tcp dport vmap { 100-200 : jump z, 300-400 : goto z }',
  'meta l4proto tcp reject with tcp reset',
  'reject with icmpx admin-prohibited',
];

async function run({ commands, netlink }: Kernel, step: Step): Promise<void> {
  const [first] = step;
  if (typeof first === 'string') await commands.run(`${step.join('\n')}\n`);
  else await netlink.batch(step as readonly SetOperation[]);
}

async function refusal(kernel: Kernel, step: Step): Promise<readonly [string, number] | undefined> {
  try {
    await run(kernel, step);
    return undefined;
  } catch (error) {
    assert(error instanceof NftError, String(error));
    return [error.code, error.line ?? error.operation ?? -1];
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
    if ((await kernel.netlink.snapshot('inet', 'nodewall')) !== null)
      await run(kernel, [`delete table ${t}`]);
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

  for (const rule of RULES) {
    it(`rule: ${rule}`, async () => {
      await run(kernel, [...A, `add chain ${t} z`, `add rule ${t} a ${rule}`]);
    });
  }

  it('check changes nothing and refuses as run does', async () => {
    await run(kernel, A);
    await kernel.commands.check(`add chain ${t} b\n`);
    assert.deepEqual(await lines(kernel), ['chain a']);
    await assert.rejects(kernel.commands.check(`delete chain ${t} b\n`), { code: 'ENOENT' });
  });

  it('a generation counts commits', async () => {
    const { generation: first } = await kernel.commands.run(`${A.join('\n')}\n`);
    assert.equal(first.after, first.before + 1);
    await assert.rejects(run(kernel, [`delete chain ${t} b`]));
    const { generation: second } = await kernel.commands.run(`add chain ${t} b\n`);
    assert.deepEqual(second, { before: first.after, after: first.after + 1 });
    assert.equal((await kernel.netlink.snapshot('inet', 'nodewall'))?.generation, second.after);
    const { generation: none } = await kernel.netlink.batch([]);
    assert.deepEqual(none, { before: second.after, after: second.after });
  });

  it('digests are equal for equal rules, and tell others apart', async () => {
    const rules = ['counter accept comment "x"', 'counter accept comment "y"', 'accept', 'jump b', 'jump c'];
    await run(kernel, [...AB, `add chain ${t} c`, ...rules.map((rule) => `add rule ${t} a ${rule}`)]);
    const digests = await digestsOf(kernel, 'a');
    assert.equal(digests[0], digests[1]);
    assert.equal(new Set(digests).size, 4);
    await run(kernel, [`rename chain ${t} b old`]);
    const after = await digestsOf(kernel, 'a');
    assert.notEqual(after[3], digests[3], 'a jump to a renamed chain reads otherwise');
    assert.deepEqual(after.toSpliced(3, 1), digests.toSpliced(3, 1));
  });

  it('what is not there is null', async () => {
    assert.equal(await kernel.netlink.snapshot('inet', 'nodewall'), null);
    assert.equal(await kernel.netlink.elements(name('s')), null);
    await run(kernel, TABLE);
    assert.equal(await kernel.netlink.elements(name('s')), null);
  });
}

async function digestsOf({ netlink }: Kernel, chain: string): Promise<string[]> {
  const table = await netlink.snapshot('inet', 'nodewall');
  const found = table?.chains.find((one) => one.name === chain);
  return (found?.rules ?? []).map(({ digest }) => digest);
}

describe('the fake kernel', () => {
  contract(async () => ({ kernel: fakeKernel(), isFake: true }));

  it('refuses forms that nodewall does not write', async () => {
    const kernel = fakeKernel();
    await run(kernel, A);
    for (const line of [
      `insert rule ${t} a accept`,
      `add rule ${t} a log accept`,
      'add table inet other',
      `add rule ${t} a tcp dport ssh accept`,
      `flush table ${t}`,
      `add chain ${t} o { type filter hook output priority 0; policy drop; }`,
    ]) {
      assert.deepEqual(await refusal(kernel, [line]), ['SYNTAX', 1], line);
    }
  });
});

kernelSuite('the real kernel', () => {
  let real: RealKernel | undefined;
  contract(async () => {
    real = await realKernel();
    return { kernel: real, isFake: false };
  });
  after(() => real?.close());
});
