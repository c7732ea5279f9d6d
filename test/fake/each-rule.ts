import assert from 'node:assert/strict';
import type { Chain, Match, NamedSet, NftRule, Ruleset, Statement } from '../../agent/render/ruleset.ts';
import { packAddressMac, toVerdictMap } from '../../agent/render/verdict-map.ts';
import { parseAddress, parseCidr } from '../../lib/net/address.ts';
import { packMachine32 } from '../../lib/net/bytes.ts';
import { indexChain, inputChain, ruleset, verdictMap } from '../tracer/ruleset.ts';

function cidr(text: string) {
  const found = parseCidr(text);
  assert.ok(found, text);
  return found.cidr;
}

function set(
  name: string,
  family: 4 | 6,
  key: NamedSet['key'],
  interval: boolean,
  singles: string,
): NamedSet {
  return {
    name,
    family,
    key,
    interval,
    members: {
      singles: Buffer.from(singles.replaceAll(' ', ''), 'hex'),
      prefixes: interval ? [cidr(family === 4 ? '240.0.0.0/4' : 'fe80::/10')] : [],
    },
    comment: `what "${name}" \\ is for ä`,
  };
}

const SETS: readonly NamedSet[] = [
  set('hash4', 4, 'address', false, '0a000001 0a000003'),
  set('interval4', 4, 'address', true, '0a000001'),
  set('hash6', 6, 'address', false, `${'fd'.padEnd(31, '0')}1`),
  set('interval6', 6, 'address', true, ''),
  set('service4', 4, 'service', false, '0a000001 06000000 00500000 0a000001 11000000 00350000'),
  set('service6', 6, 'service', false, ''),
];

const jump = { kind: 'jump', chain: 'there' } as const;
const goto = { kind: 'goto', chain: 'there' } as const;
const MAPS = [
  verdictMap('ports', null, [
    [22, jump],
    [80, goto],
    [443, jump],
  ]),
  verdictMap('ranges', null, [
    [[0n, 22n], jump],
    [[23n, 79n], goto],
    [[1024n, 65535n], jump],
  ]),
  verdictMap('empty', null, []),
  verdictMap('areas', 4, [
    [[0x0a000000n, 0x0affffffn], jump],
    [[0x0b000000n, 0x0b000004n], goto],
  ]),
  verdictMap('hosts', 6, [[1n, goto]]),
  toVerdictMap({ name: 'marks', key: 'mark', family: null, interval: false, fixed: false }, [
    { first: packMachine32(0x07000000), verdict: goto },
    { first: packMachine32(1), verdict: jump },
  ]),
  ...(['192.0.2.1', '2001:db8::1'] as const).flatMap((text) => {
    const address = parseAddress(text) ?? assert.fail();
    const { family } = address;
    const first = packAddressMac(address, '0e:01:02:03:04:ff');
    const kinds = { addressMac: 'pairs', addressInnerMac: 'ends' } as const;
    return (['addressMac', 'addressInnerMac'] as const).map((key) =>
      toVerdictMap({ name: `${kinds[key]}${family}`, key, family, interval: false, fixed: false }, [
        { first, verdict: goto },
      ]),
    );
  }),
];

/** For each kind, the variants for which libnftables writes different expressions. */
export const EACH_MATCH: readonly Match[] = [
  { match: 'ctEstablished' },
  { match: 'ctUntracked' },
  { match: 'ctNew' },
  { match: 'ctDirection', direction: 'original' },
  { match: 'ctDirection', direction: 'reply' },
  { match: 'ctNoSnat' },
  ...(['meta', 'ct'] as const).flatMap((of) =>
    [true, false].flatMap((negated): Match[] => [
      { match: 'mark', of, mask: 0xffffffff, value: 7, negated },
      { match: 'mark', of, mask: 0x7f000000, value: 0, negated },
      { match: 'mark', of, mask: 0xff000000, value: 0x87000000, negated },
    ]),
  ),
  ...[true, false].flatMap((negated): Match[] => [
    { match: 'ctLabel', bits: [5], negated },
    { match: 'ctLabel', bits: [0, 63, 64, 127], negated },
  ]),
  ...(['saddr', 'daddr'] as const).flatMap((field): Match[] => [
    { match: 'notInSet', family: 4, field, set: 'hash4' },
    { match: 'notInSet', family: 6, field, set: 'interval6' },
  ]),
  { match: 'noRouteBack' },
  { match: 'fromSocket' },
  { match: 'tcpSyn' },
  { match: 'tcpNotFirst' },
  { match: 'loopback', field: 'iif' },
  { match: 'loopback', field: 'oif' },
  ...(['iifgroup', 'oifgroup'] as const).flatMap((field): Match[] => [
    { match: 'interfaceGroup', field, groups: [5], negated: false },
    { match: 'interfaceGroup', field, groups: [0x12345678], negated: true },
    { match: 'interfaceGroup', field, groups: [0, 5, 4294967295], negated: false },
    { match: 'interfaceGroup', field, groups: [5, 7], negated: true },
  ]),
  { match: 'ctDnat' },
  { match: 'ctConfirmed' },
  { match: 'dnsAnswer' },
  { match: 'limit', perSecond: 10, burst: 5 },
  { match: 'limit', perSecond: 1_000_000, burst: 1 },
  { match: 'nfproto', family: 4 },
  { match: 'nfproto', family: 6 },
  ...(['tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'igmp'] as const).map(
    (protocol): Match => ({ match: 'l4proto', protocols: [protocol] }),
  ),
  { match: 'l4proto', protocols: ['tcp', 'udp'] },
  { match: 'l4proto', protocols: [47] },
  { match: 'l4proto', protocols: ['udp', 'sctp', 'icmp', 'icmpv6', 'igmp', 'tcp'] },
  ...(['saddr', 'daddr', 'originalDaddr'] as const).flatMap((field): Match[] => [
    { match: 'address', family: 4, field, in: { set: 'hash4' } },
    { match: 'address', family: 4, field, in: { set: 'interval4' } },
    { match: 'address', family: 6, field, in: { set: 'hash6' } },
    { match: 'address', family: 6, field, in: { set: 'interval6' } },
    ...[0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32].map(
      (length): Match => ({
        match: 'address',
        family: 4,
        field,
        in: {
          cidr: { family: 4, length, value: length === 0 ? 0n : 0x80000000n | (1n << BigInt(32 - length)) },
        },
      }),
    ),
    ...[0, 1, 8, 10, 32, 47, 48, 63, 64, 65, 120, 127, 128].map(
      (length): Match => ({
        match: 'address',
        family: 6,
        field,
        in: { cidr: { family: 6, length, value: length === 0 ? 0n : 1n << BigInt(128 - length) } },
      }),
    ),
  ]),
  ...(['tcp', 'udp', 'sctp'] as const).flatMap((protocol) =>
    [
      [[80, 80] as const],
      [[80, 90] as const],
      [[0, 65535] as const],
      [[80, 80] as const, [443, 443] as const],
      [[80, 80] as const, [81, 81] as const, [443, 443] as const],
      [[80, 80] as const, [81, 81] as const, [443, 543] as const],
      [[0, 5] as const, [80, 80] as const, [65535, 65535] as const],
      [[0, 5] as const, [6, 90] as const, [91, 65535] as const],
      [[1, 5] as const, [6000, 65535] as const],
    ].flatMap((ranges): Match[] => [
      { match: 'port', protocol, field: 'dport', ranges },
      { match: 'port', protocol, field: 'sport', ranges },
      { match: 'port', protocol, field: 'dport', ranges, isProtocolKnown: true },
      { match: 'port', protocol, field: 'sport', ranges, isProtocolKnown: true },
      { match: 'originalPort', protocol, ranges },
    ]),
  ),
  { match: 'serviceTuple', family: 4, set: 'service4' },
  { match: 'serviceTuple', family: 6, set: 'service6' },
  ...(
    [
      [4, '10.0.0.0/8'],
      [4, '10.0.0.0/9'],
      [4, '0.0.0.0/0'],
      [4, '10.0.0.1/32'],
      [4, '10.0.0.1/32', '10.0.0.2/32'],
      [4, '10.0.0.0/8', '192.168.0.1/32'],
      [4, '10.0.0.0/9', '10.128.0.0/9', '11.0.0.0/32', '224.0.0.0/3'],
      [4, '0.0.0.0/1', '192.0.0.0/2'],
      [6, 'fe80::/10'],
      [6, 'fd00::1/128'],
      [6, 'fd00::1/128', 'fd00::2/128'],
      [6, '::/1', 'fe80::/10', 'ff00::/8'],
    ] as const
  ).flatMap(([family, ...texts]): Match[] =>
    (['saddr', 'daddr'] as const).map((field) => ({ match: 'notIn', family, field, cidrs: texts.map(cidr) })),
  ),
  { match: 'local', field: 'saddr' },
  { match: 'local', field: 'daddr' },
  { match: 'vrf' },
  { match: 'toVrf', device: 'vrf7' },
  { match: 'toMany' },
  { match: 'notEther' },
  { match: 'etherHeader' },
  ...[true, false].flatMap((withSourcePort): Match[] => [
    {
      match: 'portTuple',
      withSourcePort,
      tuples: [
        { protocol: 'tcp', sourcePorts: [7, 7], ports: [80, 80] },
        { protocol: 'udp', sourcePorts: [8, 8], ports: [53, 53] },
      ],
    },
    {
      match: 'portTuple',
      withSourcePort,
      tuples: [
        { protocol: 'tcp', sourcePorts: [0, 65535], ports: [80, 90] },
        { protocol: 'sctp', sourcePorts: [8, 8], ports: [53, 53] },
      ],
    },
    {
      match: 'portTuple',
      withSourcePort,
      tuples: [{ protocol: 'tcp', sourcePorts: [0, 9], ports: [80, 80] }],
    },
  ]),
  ...(['icmp', 'icmpv6'] as const).flatMap((protocol): Match[] => [
    { match: 'icmp', protocol, types: [{ type: 8, code: null }] },
    { match: 'icmp', protocol, types: [{ type: 3, code: 4 }] },
    { match: 'icmp', protocol, types: [8, 0, 129].map((type) => ({ type, code: null })) },
    {
      match: 'icmp',
      protocol,
      types: [
        { type: 3, code: 4 },
        { type: 3, code: 5 },
      ],
    },
    {
      match: 'icmp',
      protocol,
      types: [
        { type: 3, code: 4 },
        { type: 8, code: null },
      ],
    },
  ]),
  { match: 'igmp', types: [17] },
  { match: 'igmp', types: [17, 18, 22] },
];

export const EACH_STATEMENT: readonly Statement[] = [
  { kind: 'accept' },
  { kind: 'drop' },
  { kind: 'return' },
  { kind: 'jump', chain: 'there' },
  { kind: 'goto', chain: 'there' },
  { kind: 'reject', with: 'tcp reset' },
  { kind: 'reject', with: 'icmpx admin-prohibited' },
  { kind: 'log', prefix: 'nodewall "x" Drop', group: 5, copyRange: 128, queueThreshold: 64 },
  { kind: 'masquerade', random: true },
  { kind: 'masquerade', random: false },
  { kind: 'snat', family: 4, to: 'saddr' },
  { kind: 'snat', family: 6, to: 'saddr' },
  { kind: 'snat', family: 4, to: 0xc0000201n },
  { kind: 'snat', family: 6, to: 0x20010db8000000000000000000000001n },
  { kind: 'notrack' },
  ...(['meta', 'ct'] as const).flatMap((to) =>
    (['meta', 'ct'] as const).flatMap((from) =>
      (
        [
          [0, 0x40000000],
          [0xffffffff, 0x40000000],
          [0x80ffffff, 0x07000000],
          [0x8fffffff, 0x07000000],
          [0x80ffffff, 0],
          ...(from === to ? [] : [[0xffffffff, 0] as const]),
        ] as const
      ).map(([mask, value]): Statement => ({ kind: 'setMark', to, from, mask, value })),
    ),
  ),
  { kind: 'setLabel', bits: [0] },
  { kind: 'setLabel', bits: [7, 64, 126] },
  { kind: 'maxSegment', size: 'rt mtu' },
  { kind: 'maxSegment', size: 1360 },
  { kind: 'markMap', of: 'ct', mask: 0x7f000000, map: 'marks' },
  { kind: 'markMap', of: 'meta', mask: 0xffffffff, map: 'marks' },
  ...([4, 6] as const).flatMap((family): Statement[] => [
    { kind: 'addressMacMap', family, map: `pairs${family}` },
    { kind: 'addressInnerMacMap', family, map: `ends${family}` },
    { kind: 'hashMap', family, fields: ['saddr', 'daddr'], verdicts: [jump, goto, jump] },
    { kind: 'hashMap', family, fields: ['saddr'], verdicts: [goto] },
    { kind: 'hashMap', family, fields: ['daddr'], verdicts: Array.from({ length: 128 }, () => goto) },
  ]),
  ...(['tcp', 'udp', 'sctp'] as const).flatMap((protocol) =>
    [true, false].flatMap((original): Statement[] =>
      ['ports', 'ranges', 'empty'].map((map) => ({
        kind: 'portMap',
        protocol,
        field: original || map === 'ports' ? 'dport' : 'sport',
        original,
        map,
      })),
    ),
  ),
  { kind: 'addressMap', family: 4, field: 'saddr', map: 'areas' },
  { kind: 'addressMap', family: 4, field: 'daddr', map: 'areas' },
  { kind: 'addressMap', family: 6, field: 'saddr', map: 'hosts' },
];

export function anyRule(statement: Statement, ...matches: readonly Match[]): NftRule {
  return { matches, counter: true, statement, comment: 'a "comment"' };
}

const POSTROUTING: Chain = {
  ...inputChain(),
  name: 'postrouting',
  base: { type: 'nat', hook: 'postrouting', policy: 'accept', priority: 100 },
};

/** The rules in a chain that no hook leads to: there the kernel accepts any statement. */
export function withEachSet(rules: readonly NftRule[]): Ruleset {
  return ruleset([indexChain('c', ...rules), inputChain(), POSTROUTING, indexChain('there')], {
    sets: SETS,
    maps: MAPS,
  });
}
