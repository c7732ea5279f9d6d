import assert from 'node:assert/strict';
import { parseCidr } from '../../lib/net/address.ts';
import { packMachine32 } from '../../lib/net/bytes.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { identifier, mapLines, nftQuote, rulesetText, ruleText, setLines } from './nft-text.ts';
import type { Match, NamedSet, Statement } from './ruleset.ts';
import { packAddressMac, toVerdictMap } from './verdict-map.ts';

const cidr = parseCidr('10.0.0.0/8')?.cidr ?? assert.fail();
const set = (members = toMemberSet([{ cidr, except: [] }], ['192.0.2.1'])): NamedSet => ({
  name: 's',
  family: 4,
  key: 'address',
  interval: members.v4.prefixes.length > 0,
  members: members.v4,
  comment: 'c',
});

describe('nfttext', () => {
  it('rejects names that nft would read as something else', () => {
    for (const name of ['', '1a', '-a', 'a b', 'a;b', 'a"', 'a\n', 'é', 'a'.repeat(256)]) {
      assert.throws(() => identifier(name), /is not a valid nft identifier/);
    }
    assert.equal(identifier('a'.repeat(255)).length, 255);
    assert.equal(identifier('ingress-0a_B.c'), 'ingress-0a_B.c');
  });

  it('keeps quotes, backslashes and line ends out of strings', () => {
    assert.equal(nftQuote('a"b\\c\nd\u0000\u2028e é'), '"a_b_c_d__e é"');
  });

  it('writes a rule as matches, counter, statement, comment', () => {
    const rule = {
      matches: [
        { match: 'address', family: 4, field: 'saddr', in: { cidr } },
        { match: 'port', protocol: 'tcp', field: 'dport', ranges: [[1, 2]] },
      ],
      counter: true,
      statement: { kind: 'drop' },
      comment: 'p/r',
    } as const;
    assert.equal(ruleText(rule), 'ip saddr 10.0.0.0/8 tcp dport 1-2 counter drop comment "p/r"');
  });

  it('writes every statement', () => {
    const verdict = { kind: 'goto', chain: 'c' } as const;
    const statements: readonly (readonly [Statement, string])[] = [
      [{ kind: 'accept' }, 'accept'],
      [{ kind: 'drop' }, 'drop'],
      [{ kind: 'return' }, 'return'],
      [{ kind: 'masquerade', random: true }, 'masquerade fully-random'],
      [
        { kind: 'log', prefix: 'a"b', group: 7, copyRange: 128, queueThreshold: 9 },
        'log prefix "a_b" group 7 snaplen 128 queue-threshold 9',
      ],
      [{ kind: 'jump', chain: 'c' }, 'jump c'],
      [verdict, 'goto c'],
      [{ kind: 'reject', with: 'tcp reset' }, 'reject with tcp reset'],
      [{ kind: 'reject', with: 'icmpx admin-prohibited' }, 'reject with icmpx admin-prohibited'],
      [{ kind: 'portMap', protocol: 'udp', field: 'dport', original: false, map: 'm' }, 'th dport vmap @m'],
      [{ kind: 'addressMap', family: 6, field: 'daddr', map: 'm' }, 'ip6 daddr vmap @m'],
      [{ kind: 'masquerade', random: false }, 'masquerade'],
      [{ kind: 'snat', family: 4, to: 'saddr' }, 'snat ip to ip saddr'],
      [{ kind: 'snat', family: 6, to: 1n }, 'snat ip6 to ::1'],
      [{ kind: 'notrack' }, 'notrack'],
      [{ kind: 'setMark', to: 'meta', from: 'ct', mask: 0xffffffff, value: 0 }, 'meta mark set ct mark'],
      [{ kind: 'setMark', to: 'ct', from: 'meta', mask: 0, value: 7 }, 'ct mark set 0x00000007'],
      [
        { kind: 'setMark', to: 'ct', from: 'ct', mask: 0x80ffffff, value: 0x07000000 },
        'ct mark set ct mark & 0x87ffffff | 0x07000000',
      ],
      [
        { kind: 'setMark', to: 'meta', from: 'meta', mask: 0xbfffffff, value: 0x40000000 },
        'meta mark set meta mark | 0x40000000',
      ],
      [{ kind: 'setLabel', bits: [2, 100] }, 'ct label set 2 | 100'],
      [{ kind: 'maxSegment', size: 'rt mtu' }, 'tcp option maxseg size set rt mtu'],
      [{ kind: 'maxSegment', size: 1360 }, 'tcp option maxseg size set 1360'],
      [{ kind: 'markMap', of: 'ct', mask: 0x7f000000, map: 'm' }, 'ct mark & 0x7f000000 vmap @m'],
      [{ kind: 'markMap', of: 'meta', mask: 0xffffffff, map: 'm' }, 'meta mark vmap @m'],
      [{ kind: 'addressMacMap', family: 4, map: 'm' }, 'ip saddr . ether saddr vmap @m'],
      [{ kind: 'addressInnerMacMap', family: 6, map: 'm' }, 'ip6 saddr . @th,176,48 vmap @m'],
      [
        { kind: 'hashMap', family: 6, fields: ['saddr', 'daddr'], verdicts: [verdict, verdict] },
        'jhash ip6 saddr . ip6 daddr mod 2 seed 0x0 vmap { 0 : goto c, 1 : goto c }',
      ],
    ];
    for (const [statement, text] of statements) {
      assert.equal(ruleText({ matches: [], counter: false, statement, comment: null }), text);
    }
    const kinds = [
      'accept',
      'drop',
      'return',
      'masquerade',
      'log',
      'jump',
      'goto',
      'reject',
      'portMap',
      'addressMap',
      'snat',
      'notrack',
      'setMark',
      'setLabel',
      'maxSegment',
      'markMap',
      'addressMacMap',
      'addressInnerMacMap',
      'hashMap',
    ];
    assert.deepEqual(new Set(statements.map(([{ kind }]) => kind)), new Set(kinds));
  });

  it('writes the matches of egress gateways', () => {
    const matches: readonly (readonly [Match, string])[] = [
      [{ match: 'ctNew' }, 'ct state new'],
      [{ match: 'ctDirection', direction: 'original' }, 'ct direction original'],
      [{ match: 'ctNoSnat' }, 'ct status ! snat'],
      [{ match: 'ctLabel', bits: [2], negated: false }, 'ct label 2'],
      [{ match: 'ctLabel', bits: [2, 100], negated: true }, 'ct label ! 2,100'],
      [
        { match: 'mark', of: 'ct', mask: 0x40000000, value: 0, negated: true },
        'ct mark & 0x40000000 != 0x00000000',
      ],
      [
        { match: 'mark', of: 'meta', mask: 0x7f000000, value: 1, negated: false },
        'meta mark & 0x7f000000 == 0x00000001',
      ],
      [{ match: 'mark', of: 'meta', mask: 0xffffffff, value: 1, negated: false }, 'meta mark 0x00000001'],
      [{ match: 'notInSet', family: 6, field: 'saddr', set: 's' }, 'ip6 saddr != @s'],
      [{ match: 'noRouteBack' }, 'fib saddr . iif oif missing'],
      [{ match: 'fromSocket' }, 'meta skuid != 4294967295'],
      [{ match: 'tcpSyn' }, 'tcp flags syn'],
      [{ match: 'tcpNotFirst' }, 'tcp flags & (fin | syn | rst | ack) != syn'],
      [{ match: 'ctUntracked' }, 'ct state untracked'],
    ];
    for (const [match, text] of matches) {
      assert.equal(
        ruleText({ matches: [match], counter: false, statement: { kind: 'drop' }, comment: null }),
        `${text} drop`,
      );
    }
  });

  it('declares a set with or without its members', () => {
    const head = ['type ipv4_addr', 'flags interval', 'comment "c"'];
    assert.deepEqual(setLines(set(), false), head);
    assert.deepEqual(setLines(set(), true), [...head, 'elements = { 10.0.0.0/8, 192.0.2.1 }']);
    assert.deepEqual(setLines(set(toMemberSet([], [])), true), ['type ipv4_addr', 'comment "c"']);
  });

  it('declares a verdict map with or without its elements', () => {
    const map = (family: 4 | 6 | null, keys: number[], interval = false) => ({
      name: 'm',
      key: family === null ? ('port' as const) : ('address' as const),
      family,
      interval,
      fixed: false,
      keys: Uint8Array.from(keys),
      targets: Uint32Array.of(0),
      verdicts: [{ kind: 'jump', chain: 'c' } as const],
    });
    assert.deepEqual(mapLines(map(null, [0, 80]), false), ['type inet_service : verdict']);
    assert.deepEqual(mapLines(map(null, [1, 80]), true)[1], 'elements = { 336 : jump c }');
    assert.deepEqual(mapLines(map(null, [0, 1, 0, 9], true), true), [
      'type inet_service : verdict',
      'flags interval',
      'elements = { 1-9 : jump c }',
    ]);
    assert.deepEqual(mapLines(map(4, [192, 0, 2, 1]), true), [
      'type ipv4_addr : verdict',
      'elements = { 192.0.2.1 : jump c }',
    ]);
    assert.deepEqual(
      mapLines(map(4, [10, 0, 0, 0, 10, 255, 255, 255], true), true)[2],
      'elements = { 10.0.0.0/8 : jump c }',
    );
    assert.deepEqual(
      mapLines(map(4, [10, 0, 0, 1, 10, 0, 0, 2], true), true)[2],
      'elements = { 10.0.0.1-10.0.0.2 : jump c }',
    );
  });

  it('declares maps from marks, and from addresses with MACs', () => {
    const verdict = { kind: 'goto', chain: 'c' } as const;
    const marks = { name: 'm', key: 'mark', family: null, interval: false, fixed: false } as const;
    const entries = [2, 1].map((mark) => ({ first: packMachine32(mark), verdict }));
    assert.deepEqual(mapLines(toVerdictMap(marks, entries), true), [
      'type mark : verdict',
      'elements = { 0x00000001 : goto c, 0x00000002 : goto c }',
    ]);
    const first = packAddressMac({ family: 4, value: 0x0a000001n }, '0e:01:02:03:04:ff');
    const pairs = { ...marks, key: 'addressMac', family: 4 } as const;
    assert.deepEqual(mapLines(toVerdictMap(pairs, [{ first, verdict }]), true), [
      'type ipv4_addr . ether_addr : verdict',
      'elements = { 10.0.0.1 . 0e:01:02:03:04:ff : goto c }',
    ]);
    for (const wrong of ['0e:01:02:03:04', '0e:01:02:03:04:100', '0e:01:02:03:04:0g', '']) {
      assert.throws(() => packAddressMac({ family: 4, value: 0n }, wrong), /is not a MAC address/);
    }
  });

  it('throws on a chain whose name is not an identifier, in any place', () => {
    const statement = { kind: 'jump', chain: 'a b' } as const;
    assert.throws(() => ruleText({ matches: [], counter: false, statement, comment: null }));
    const chain = { name: 'a;b', base: null, fixed: true, rules: [], source: null, ruleId: null };
    assert.throws(() => rulesetText({ chains: new Map([['a', chain]]), sets: new Map(), maps: new Map() }));
  });
});
