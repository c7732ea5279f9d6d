import assert from 'node:assert/strict';
import { parseCidr } from '../../apis/address.ts';
import { toMemberSet } from '../../apis/memberset.ts';
import { identifier, mapLines, quote, rulesetText, ruleText, setLines } from './nfttext.ts';
import type { NamedSet, Statement } from './ruleset.ts';

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
  it('refuses names that nft would read as something else', () => {
    for (const name of ['', '1a', '-a', 'a b', 'a;b', 'a"', 'a\n', 'é', 'a'.repeat(256)]) {
      assert.throws(() => identifier(name), /is no nft identifier/);
    }
    assert.equal(identifier('a'.repeat(255)).length, 255);
    assert.equal(identifier('ingress-0a_B.c'), 'ingress-0a_B.c');
  });

  it('keeps quotes, backslashes and line ends out of strings', () => {
    assert.equal(quote('a"b\\c\nd\u0000\u2028e é'), '"a_b_c_d__e é"');
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
      [{ kind: 'masquerade' }, 'masquerade fully-random'],
      [
        { kind: 'log', prefix: 'a"b', group: 7, copyRange: 128, queueThreshold: 9 },
        'log prefix "a_b" group 7 snaplen 128 queue-threshold 9',
      ],
      [{ kind: 'jump', chain: 'c' }, 'jump c'],
      [verdict, 'goto c'],
      [{ kind: 'reject', with: 'tcp reset' }, 'reject with tcp reset'],
      [{ kind: 'reject', with: 'icmpx admin-prohibited' }, 'reject with icmpx admin-prohibited'],
      [{ kind: 'portMap', protocol: 'udp', original: false, map: 'm' }, 'udp dport vmap @m'],
      [
        { kind: 'portRangeMap', protocol: 'tcp', original: false, entries: [[[1, 9], verdict]] },
        'tcp dport vmap { 1-9 : goto c }',
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
      'portRangeMap',
    ];
    assert.deepEqual(new Set(statements.map(([{ kind }]) => kind)), new Set(kinds));
  });

  it('declares a set with or without its members', () => {
    const head = ['type ipv4_addr', 'flags interval', 'comment "c"'];
    assert.deepEqual(setLines(set(), false), head);
    assert.deepEqual(setLines(set(), true), [...head, 'elements = { 10.0.0.0/8, 192.0.2.1 }']);
    assert.deepEqual(setLines(set(toMemberSet([], [])), true), ['type ipv4_addr', 'comment "c"']);
    const map = { name: 'm', entries: new Map([[80, { kind: 'jump', chain: 'c' } as const]]) };
    assert.deepEqual(mapLines(map, false), ['type inet_service : verdict']);
    assert.deepEqual(mapLines(map, true), ['type inet_service : verdict', 'elements = { 80 : jump c }']);
  });

  it('throws on a chain whose name is no identifier, wherever it is named', () => {
    const statement = { kind: 'jump', chain: 'a b' } as const;
    assert.throws(() => ruleText({ matches: [], counter: false, statement, comment: null }));
    const chain = { name: 'a;b', base: null, fixed: true, rules: [], source: null, ruleId: null };
    assert.throws(() => rulesetText({ chains: new Map([['a', chain]]), sets: new Map(), maps: new Map() }));
  });
});
