import assert from 'node:assert/strict';
import { type BatchOperation, type Expression, type MapVerdict, Netlink, NftError } from '../lib/index.ts';
import { inNamespace, nft } from './netns.ts';

const t = { family: 'inet', table: 't' } as const;
const ipv4 = { type: 7, length: 4 };
const port = { type: 13, length: 2 };

const l4proto = (number: number): Expression[] => [
  { kind: 'meta', key: 'l4proto', register: 1 },
  { kind: 'cmp', register: 1, operator: 'eq', value: Uint8Array.of(number) },
];
const isIPv4: Expression[] = [
  { kind: 'meta', key: 'nfproto', register: 1 },
  { kind: 'cmp', register: 1, operator: 'eq', value: Uint8Array.of(2) },
];
const destinationPort: Expression = { kind: 'payload', base: 'transport', offset: 2, length: 2, register: 1 };
const source: Expression = { kind: 'payload', base: 'network', offset: 12, length: 4, register: 1 };
const verdict = (it: MapVerdict): Expression => ({ kind: 'verdict', verdict: it });
const accept = verdict({ kind: 'accept' });

/** A text and the same rule as expressions; every kind of expression is in one of them. */
const pairs: [text: string, expressions: Expression[]][] = [
  ['accept', [accept]],
  ['drop', [verdict({ kind: 'drop' })]],
  ['return', [verdict({ kind: 'return' })]],
  ['continue', [verdict({ kind: 'continue' })]],
  ['jump c2', [verdict({ kind: 'jump', chain: 'c2' })]],
  ['goto c2', [verdict({ kind: 'goto', chain: 'c2' })]],
  ['counter', [{ kind: 'counter' }]],
  ['counter packets 7 bytes 4294967297', [{ kind: 'counter', packets: 7, bytes: 4294967297n }]],
  [
    'iif "lo"',
    [
      { kind: 'meta', key: 'iif', register: 1 },
      { kind: 'cmp', register: 1, operator: 'eq', value: Uint8Array.of(1, 0, 0, 0) },
    ],
  ],
  [
    'tcp dport 443',
    [
      ...l4proto(6),
      destinationPort,
      { kind: 'cmp', register: 1, operator: 'eq', value: Uint8Array.of(1, 187) },
    ],
  ],
  [
    'ip saddr 10.128.0.0/9',
    [
      ...isIPv4,
      source,
      { kind: 'bitwise', register: 1, mask: Uint8Array.of(255, 128, 0, 0), xor: new Uint8Array(4) },
      { kind: 'cmp', register: 1, operator: 'eq', value: Uint8Array.of(10, 128, 0, 0) },
    ],
  ],
  ['ip saddr @s', [...isIPv4, source, { kind: 'lookup', register: 1, set: 's' }]],
  ['ip saddr != @s', [...isIPv4, source, { kind: 'lookup', register: 1, set: 's', inverted: true }]],
  [
    'tcp dport vmap @m',
    [...l4proto(6), destinationPort, { kind: 'lookup', register: 1, set: 'm', verdict: true }],
  ],
  [
    'meta l4proto tcp ct original proto-dst 80',
    [
      ...l4proto(6),
      { kind: 'ct', key: 'protoDestination', register: 1, direction: 'original' },
      { kind: 'cmp', register: 1, operator: 'eq', value: Uint8Array.of(0, 80) },
    ],
  ],
  [
    'ct direction reply',
    [
      { kind: 'ct', key: 'direction', register: 1 },
      { kind: 'cmp', register: 1, operator: 'eq', value: Uint8Array.of(1) },
    ],
  ],
  ['limit rate 10/second burst 5 packets', [{ kind: 'limit', rate: 10, seconds: 1, burst: 5 }]],
  ['limit rate 3/minute burst 2 packets', [{ kind: 'limit', rate: 3, seconds: 60, burst: 2 }]],
  [
    'log prefix "a prefix" group 5 snaplen 64 queue-threshold 8',
    [{ kind: 'log', prefix: 'a prefix', group: 5, snapLength: 64, queueThreshold: 8 }],
  ],
  ['meta l4proto tcp reject with tcp reset', [...l4proto(6), { kind: 'reject', type: 'tcp reset', code: 0 }]],
  ['reject with icmpx admin-prohibited', [{ kind: 'reject', type: 'icmpx', code: 3 }]],
  ['masquerade fully-random', [{ kind: 'masq', flags: 16 }]],
  ['masquerade', [{ kind: 'masq', flags: 0 }]],
  [
    'snat ip to 192.0.2.1',
    [
      { kind: 'immediate', register: 1, value: Uint8Array.of(192, 0, 2, 1) },
      { kind: 'nat', type: 'snat', family: 'ip', register: 1 },
    ],
  ],
  ['notrack', [{ kind: 'notrack' }]],
  [
    'meta mark set ct mark',
    [
      { kind: 'ct', key: 'mark', register: 1 },
      { kind: 'meta', key: 'mark', register: 1, set: true },
    ],
  ],
  [
    'ct label set 0 | 9',
    [
      { kind: 'immediate', register: 1, value: Uint8Array.of(1, 2, ...Array<number>(14).fill(0)) },
      { kind: 'ct', key: 'label', register: 1, set: true },
    ],
  ],
  [
    'ct mark set jhash ip saddr mod 5 seed 0x7',
    [
      ...isIPv4,
      { ...source, register: 2 },
      { kind: 'hash', source: 2, length: 4, register: 1, modulus: 5, seed: 7 },
      { kind: 'ct', key: 'mark', register: 1, set: true },
    ],
  ],
  [
    'tcp option maxseg size set rt mtu',
    [
      { kind: 'rt', key: 'tcpmss', register: 1 },
      { kind: 'byteorder', register: 1, operation: 'hton', length: 2, size: 2 },
      { kind: 'exthdr', option: 2, offset: 2, length: 2, register: 1 },
    ],
  ],
  [
    'fib saddr . iif oif missing',
    [
      { kind: 'fib', result: 'oif', flags: ['saddr', 'iif', 'present'], register: 1 },
      { kind: 'cmp', register: 1, operator: 'eq', value: new Uint8Array(4) },
    ],
  ],
  [
    'meta mark 5-7',
    [
      { kind: 'meta', key: 'mark', register: 1 },
      { kind: 'byteorder', register: 1, operation: 'hton', length: 4, size: 4 },
      { kind: 'cmp', register: 1, operator: 'gte', value: Uint8Array.of(0, 0, 0, 5) },
      { kind: 'cmp', register: 1, operator: 'lte', value: Uint8Array.of(0, 0, 0, 7) },
    ],
  ],
];

inNamespace(import.meta.filename, () => {
  describe('structure in a batch', () => {
    let netlink: Netlink;
    beforeEach(() => {
      netlink = new Netlink();
    });
    afterEach(async () => {
      await netlink.close();
      nft('flush', 'ruleset');
    });

    it('makes a whole table in one commit, as nft lists it', async () => {
      const rule = (expressions: Expression[], comment?: string): BatchOperation => ({
        op: 'addRule',
        ...t,
        chain: 'first',
        expressions,
        ...(comment === undefined ? {} : { comment }),
      });
      const { generation } = await netlink.batch([
        { op: 'addTable', ...t },
        { op: 'addSet', ...t, set: 'hash', id: 1, key: ipv4, comment: 'four, \\ "bytes' },
        { op: 'add', ...t, set: 'hash', setId: 1, keyLength: 4, keys: Uint8Array.of(10, 0, 0, 1) },
        { op: 'addSet', ...t, set: 'prefixes', key: { type: 8, length: 16 }, interval: true },
        {
          op: 'addSet',
          ...t,
          set: 'services',
          key: { type: (7 << 12) | (12 << 6) | 13, length: 12, fields: [4, 1, 2] },
        },
        {
          op: 'addSet',
          ...t,
          set: 'pairs',
          id: 7,
          key: { type: (7 << 6) | 13, length: 8, fields: [4, 2] },
          interval: true,
          comment: 'x',
        },
        {
          op: 'add',
          ...t,
          set: 'pairs',
          setId: 7,
          keyLength: 8,
          concatenated: true,
          ranges: Uint8Array.of(10, 0, 0, 0, 0, 80, 0, 0, 10, 255, 255, 255, 0, 90, 0, 0),
        },
        {
          op: 'addChain',
          ...t,
          chain: 'first',
          base: { type: 'filter', hook: 'input', priority: -5, policy: 'drop' },
        },
        { op: 'addChain', ...t, chain: 'second' },
        { op: 'addMap', ...t, set: 'ports', id: 2 ** 31 - 1, key: port, comment: 'to chains' },
        {
          op: 'add',
          ...t,
          set: 'ports',
          setId: 2 ** 31 - 1,
          keyLength: 2,
          keys: Uint8Array.of(0, 80, 0, 81, 0, 82),
          verdicts: [{ kind: 'jump', chain: 'second' }, { kind: 'drop' }],
          verdictOf: Uint32Array.of(0, 1, 0),
        },
        { op: 'addMap', ...t, set: 'areas', key: ipv4, interval: true },
        rule([...l4proto(6), destinationPort, { kind: 'lookup', register: 1, set: 'ports', verdict: true }]),
        { op: 'addSet', ...t, set: '__set%d', id: 5, key: port, anonymous: true, size: 2 },
        { op: 'add', ...t, set: '__set%d', setId: 5, keyLength: 2, keys: Uint8Array.of(0, 22, 0, 23) },
        rule(
          [...l4proto(6), destinationPort, { kind: 'lookup', register: 1, set: '__set%d', setId: 5 }, accept],
          'ä "comment"',
        ),
      ]);
      assert.equal(generation.after, generation.before + 1);
      assert.equal(
        nft('list', 'table', 'inet', 't').replaceAll('\t', ' '),
        `table inet t {
 set hash {
  type ipv4_addr
  comment "four, \\ "bytes"
  elements = { 10.0.0.1 }
 }

 set prefixes {
  type ipv6_addr
  flags interval
 }

 set services {
  type ipv4_addr . inet_proto . inet_service
 }

 set pairs {
  type ipv4_addr . inet_service
  flags interval
  comment "x"
  elements = { 10.0.0.0/8 . 80-90 }
 }

 map ports {
  type inet_service : verdict
  comment "to chains"
  elements = { 80 : jump second, 81 : drop, 82 : jump second }
 }

 map areas {
  type ipv4_addr : verdict
  flags interval
 }

 chain first {
  type filter hook input priority filter - 5; policy drop;
  tcp dport vmap @ports
  tcp dport { 22, 23 } accept comment "ä "comment""
 }

 chain second {
 }
}
`,
      );
    });

    it('changes and deletes objects', async () => {
      nft('add table inet t; add chain inet t a; add chain inet t b { type filter hook output priority 0; }');
      nft('add set inet t s { type ipv4_addr; }; add map inet t m { type ipv4_addr : verdict; }');
      nft('add rule inet t a drop; add rule inet t b jump a');
      const handle =
        (await netlink.snapshot('inet', 't'))?.chains.find(({ name }) => name === 'a')?.handle ?? 0;
      await netlink.batch([
        {
          op: 'addChain',
          ...t,
          chain: 'b',
          base: { type: 'filter', hook: 'output', priority: 0, policy: 'drop' },
        },
        { op: 'renameChain', ...t, handle, to: 'z' },
      ]);
      await netlink.batch([
        { op: 'addChain', ...t, chain: 'a' },
        { op: 'addRule', ...t, chain: 'a', expressions: [accept] },
        { op: 'flushChain', ...t, chain: 'b' },
        { op: 'addRule', ...t, chain: 'b', expressions: [verdict({ kind: 'goto', chain: 'a' })] },
        { op: 'flushChain', ...t, chain: 'z' },
        { op: 'deleteChain', ...t, chain: 'z' },
        { op: 'deleteSet', ...t, set: 's' },
        { op: 'deleteSet', ...t, set: 'm' },
      ]);
      assert.equal(
        nft('list', 'table', 'inet', 't').replaceAll('\t', ' '),
        `table inet t {
 chain b {
  type filter hook output priority filter; policy drop;
  goto a
 }

 chain a {
  accept
 }
}
`,
      );
      await netlink.batch([{ op: 'deleteTable', ...t }]);
      assert.equal(nft('list', 'ruleset'), '');
    });

    it("returns the last counters of a deleted chain's rules if asked to", async () => {
      nft('add table inet t; add chain inet t c; add chain inet t other');
      nft('add rule inet t c counter packets 5 bytes 700 accept; add rule inet t c drop');
      nft('add rule inet t c counter packets 3 bytes 90; add rule inet t other counter packets 1 bytes 2');
      const handle = (await netlink.chains('inet', 't', ['c'])).chains[0]?.handle ?? 0;
      const { lastCounts } = await netlink.batch([
        { op: 'flushChain', ...t, chain: 'other' },
        { op: 'flushChain', ...t, chain: 'c', counts: true },
        { op: 'addRule', ...t, chain: 'c', expressions: [{ kind: 'counter' }] },
        { op: 'renameChain', ...t, handle, to: 'now' },
      ]);
      assert.deepEqual(lastCounts, [
        { operation: 1, packets: 5n, bytes: 700n },
        { operation: 1, packets: 3n, bytes: 90n },
      ]);
      const [now] = (await netlink.chains('inet', 't', ['now'])).chains;
      assert.deepEqual([now?.handle, now?.rules.map(({ packets }) => packets)], [handle, [0n]]);
      const again = await netlink.batch([{ op: 'flushChain', ...t, chain: 'now' }]);
      assert.deepEqual(again.lastCounts, []);
    });

    for (const [text, expressions] of pairs) {
      it(`writes ${text} as nft does`, async () => {
        const setting =
          'add chain inet t c; add chain inet t c2; add set inet t s { type ipv4_addr; }; add map inet t m { type inet_service : verdict; }';
        nft(`add table inet t; ${setting}; add rule inet t c ${text} comment "why"`);
        const [byText] = (await netlink.chains('inet', 't', ['c'])).chains;
        const listed = nft('list', 'table', 'inet', 't');
        nft(`delete table inet t; add table inet t; ${setting}`);
        await netlink.batch([{ op: 'addRule', ...t, chain: 'c', expressions, comment: 'why' }]);
        const [byNetlink] = (await netlink.chains('inet', 't', ['c'])).chains;
        assert.deepEqual(
          byNetlink?.rules.map((rule) => ({ ...rule, handle: 0 })),
          byText?.rules.map((rule) => ({ ...rule, handle: 0 })),
        );
        assert.equal(byNetlink?.rules.length, 1);
        assert.equal(nft('list', 'table', 'inet', 't'), listed);
      });
    }

    it('tries every kind of expression', () => {
      const tried = new Set(pairs.flatMap(([, expressions]) => expressions.map(({ kind }) => kind)));
      assert.deepEqual([...tried].sort(), [
        ...[
          'bitwise',
          'byteorder',
          'cmp',
          'counter',
          'ct',
          'exthdr',
          'fib',
          'hash',
          'immediate',
          'limit',
          'log',
          'lookup',
          'masq',
          'meta',
          'nat',
          'notrack',
          'payload',
        ],
        ...['reject', 'rt', 'verdict'],
      ]);
    });

    it('applies nothing of a batch with a rejected rule, and names the expression', async () => {
      nft('add table inet t; add chain inet t c');
      const before = await netlink.generation();
      const batch: BatchOperation[] = [
        { op: 'addChain', ...t, chain: 'd' },
        {
          op: 'addRule',
          ...t,
          chain: 'd',
          expressions: [{ kind: 'counter' }, verdict({ kind: 'jump', chain: 'nowhere' })],
        },
        { op: 'flushChain', ...t, chain: 'none' },
      ];
      await assert.rejects(netlink.batch(batch), (error: unknown) => {
        assert.ok(error instanceof NftError);
        assert.deepEqual([error.code, error.operation], ['ENOENT', 1]);
        assert.match(
          error.message,
          /operation 1 \(addRule inet t d\): expression 1: No such file or directory/,
        );
        assert.deepEqual(
          error.all.map(({ operation }) => operation),
          [1, 2],
        );
        return true;
      });
      assert.equal(await netlink.generation(), before);
      assert.deepEqual(
        (await netlink.snapshot('inet', 't'))?.chains.map(({ name }) => name),
        ['c'],
      );
    });

    it('rejects deleting an object in use, and an id that no set has', async () => {
      nft('add table inet t; add chain inet t c; add chain inet t d; add rule inet t c jump d');
      await assert.rejects(netlink.batch([{ op: 'deleteChain', ...t, chain: 'd' }]), { code: 'EBUSY' });
      await assert.rejects(
        netlink.batch([{ op: 'add', ...t, set: 's', setId: 3, keyLength: 4, keys: new Uint8Array(4) }]),
        { code: 'ENOENT', message: /add inet t s/ },
      );
    });

    it('rejects invalid arguments asynchronously', async () => {
      const rule = (...expressions: unknown[]) => ({ op: 'addRule', ...t, chain: 'c', expressions });
      const wrong: [unknown, string][] = [
        [{ op: 'addChain', ...t, chain: '' }, 'RangeError'],
        [
          {
            op: 'addChain',
            ...t,
            chain: 'c',
            base: { type: 'filter', hook: 'egress', priority: 0, policy: 'drop' },
          },
          'TypeError',
        ],
        [
          {
            op: 'addChain',
            ...t,
            chain: 'c',
            base: { type: 'filter', hook: 'input', priority: 0, policy: 'jump' },
          },
          'TypeError',
        ],
        [
          {
            op: 'addChain',
            ...t,
            chain: 'c',
            base: { type: 'filter', hook: 'input', priority: 0.5, policy: 'drop' },
          },
          'RangeError',
        ],
        [{ op: 'renameChain', ...t, handle: 0, to: 'c' }, 'RangeError'],
        [{ op: 'addSet', ...t, set: 's', key: { type: 7, length: 65 } }, 'RangeError'],
        [{ op: 'addSet', ...t, set: 's', id: 0, key: ipv4 }, 'RangeError'],
        [{ op: 'addSet', ...t, set: 's', key: ipv4, comment: 'x'.repeat(254) }, 'RangeError'],
        [rule({ kind: 'nothing' }), 'TypeError'],
        [rule({ kind: 'meta', key: 'colour', register: 1 }), 'TypeError'],
        [rule({ kind: 'meta', key: 'mark', register: 0 }), 'RangeError'],
        [rule({ kind: 'cmp', register: 1, operator: 'eq', value: [1] }), 'TypeError'],
        [rule({ kind: 'verdict', verdict: { kind: 'jump' } }), 'TypeError'],
        [rule({ kind: 'nat', type: 'dnat', family: 'ip', register: 1 }), 'TypeError'],
        [rule({ kind: 'rt', key: 'colour', register: 1 }), 'TypeError'],
        [rule({ kind: 'hash', source: 2, length: 4, register: 1, modulus: 0, seed: 0 }), 'RangeError'],
        [rule({ kind: 'cmp', register: 1, operator: 'eq', value: new Uint8Array(70_000) }), 'RangeError'],
        [rule(...Array.from({ length: 4000 }, () => ({ kind: 'counter' }))), 'RangeError'],
      ];
      for (const [operation, name] of wrong) {
        await assert.rejects(
          netlink.batch([operation] as BatchOperation[]),
          { name },
          JSON.stringify(operation).slice(0, 200),
        );
      }
    });

    it("accepts comments up to the kernel's limit", async () => {
      nft('add table inet t; add chain inet t c');
      const comment = `${'ä'.repeat(126)}x`;
      await netlink.batch([{ op: 'addRule', ...t, chain: 'c', expressions: [accept], comment }]);
      assert.equal((await netlink.chains('inet', 't', ['c'])).chains[0]?.rules[0]?.comment, comment);
      const longer: BatchOperation = {
        op: 'addRule',
        ...t,
        chain: 'c',
        expressions: [accept],
        comment: `${comment}x`,
      };
      await assert.rejects(netlink.batch([longer]), RangeError);
    });

    it('survives more errors than the socket buffer holds: the first is reported, and the next call gets its own answer', async () => {
      const netlink = new Netlink();
      const none = { family: 'inet', table: 'none' } as const;
      const many = Array.from(
        { length: 20_000 },
        (_, i): BatchOperation => ({ ...none, op: 'addChain', chain: `c${i}` }),
      );
      await assert.rejects(netlink.batch(many), (error) => {
        assert.ok(error instanceof NftError);
        assert.deepEqual([error.code, error.operation], ['ENOENT', 0]);
        return true;
      });
      await netlink.batch([{ ...t, op: 'addTable' }]);
      assert.notEqual(await netlink.snapshot('inet', 't'), null);
      await netlink.close();
    });

    it('adds 10,000 chains with a rule each at once', async () => {
      const operations: BatchOperation[] = [{ op: 'addTable', ...t }];
      for (let i = 0; i < 10_000; i++) {
        operations.push({ op: 'addChain', ...t, chain: `c${i}` });
        operations.push({
          op: 'addRule',
          ...t,
          chain: `c${i}`,
          expressions: [...isIPv4, { kind: 'counter' }, accept],
        });
      }
      await netlink.batch(operations);
      const snapshot = await netlink.snapshot('inet', 't');
      assert.equal(snapshot?.chains.filter(({ rules }) => rules.length === 1).length, 10_000);
    });
  });

  describe('Netlink.chains', () => {
    it('returns the same chains as the snapshot', async () => {
      const netlink = new Netlink();
      nft(
        'add table inet t; add chain inet t a; add chain inet t b; add table inet other; add chain inet other a',
      );
      nft('add chain inet t in { type filter hook input priority 3; }; add set inet t s { type ipv4_addr; }');
      nft('add rule inet t a tcp dport { 80, 443 } counter packets 2 bytes 3 accept comment "x"');
      nft(
        'add rule inet t a tcp dport vmap { 80 : accept, 443 : goto b }; add rule inet t a ip saddr @s drop',
      );
      nft('add rule inet t in ip saddr { 10.0.0.0/8, 192.0.2.1 } jump a; add rule inet other a drop');
      const snapshot = await netlink.snapshot('inet', 't');
      const chain = (name: string) => snapshot?.chains.find((each) => each.name === name);
      assert.deepEqual(await netlink.chains('inet', 't', ['in', 'none', 'a', 'in']), {
        generation: snapshot?.generation,
        chains: [chain('in'), chain('a')],
      });
      assert.equal(chain('a')?.rules.length, 3);
      const { generation, chains } = await netlink.chains('inet', 'none', ['a']);
      assert.deepEqual([generation, chains], [snapshot?.generation, []]);
      await assert.rejects(netlink.chains('inet', 't', ['']), RangeError);
      await netlink.close();
    });
  });
});
