import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { Netlink, Nftables } from 'nftables-napi';
import { emptyNodeState } from '../../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import { parseAddress, parseCidr } from '../../../lib/net/address.ts';
import { packMachine32 } from '../../../lib/net/bytes.ts';
import { isConvertedByNft } from '../../../test/fake/byte-order.ts';
import { egressScenario } from '../../../test/generate/egress/egress-scenario.ts';
import { scenario } from '../../../test/generate/scenario.ts';
import { toNodeEgress } from '../../../test/properties/egress-agree.ts';
import { renderBoth, toConfig, toState } from '../../../test/properties/pipeline.ts';
import { checkAsync } from '../../../test/properties/runs.ts';
import { indexChain, inputChain, ruleset, verdictMap } from '../../../test/tracer/ruleset.ts';
import { inNamespace } from '../../nftables-napi/test/netns.ts';
import { rulesetText, ruleText } from '../../render/nft-text.ts';
import { render } from '../../render/render.ts';
import {
  type Chain,
  KEY_LENGTH,
  type L4Protocol,
  type Match,
  type NamedSet,
  type NftRule,
  type Ruleset,
  type Statement,
  TABLE,
} from '../../render/ruleset.ts';
import { mapKeyLength, packAddressMac, toVerdictMap } from '../../render/verdict-map.ts';
import type { Command } from '../plan/command.ts';
import { encode } from './encode.ts';

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
const MATCHES: readonly Match[] = [
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

const STATEMENTS: readonly Statement[] = [
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

function rule(statement: Statement, ...matches: readonly Match[]): NftRule {
  return { matches, counter: true, statement, comment: 'a "comment"' };
}

const POSTROUTING: Chain = {
  ...inputChain(),
  name: 'postrouting',
  base: { type: 'nat', hook: 'postrouting', policy: 'accept', priority: 100 },
};

/** The rules in a chain that no hook leads to: there the kernel accepts any statement. */
function whole(rules: readonly NftRule[]): Ruleset {
  return ruleset([indexChain('c', ...rules), inputChain(), POSTROUTING, indexChain('there')], {
    sets: SETS,
    maps: MAPS,
  });
}

/** A ruleset in one batch: elements of maps come after the chains they lead to. */
function toCommands({ sets, maps, chains }: Ruleset): Command[] {
  return [
    { kind: 'addTable' },
    ...[...sets.values()].flatMap((each): Command[] => [
      { kind: 'addSet', set: each },
      { kind: 'addElements', set: each.name, ...setElements(each) },
    ]),
    ...[...maps.values()].map((map): Command => ({ kind: 'addMap', map })),
    ...[...chains.values()].map((each): Command => ({ kind: 'addChain', chain: each })),
    ...[...maps.values()].map(
      (map): Command => ({ kind: 'addElements', set: map.name, keyLength: mapKeyLength(map), ...map }),
    ),
    ...[...chains.values()].flatMap(({ name, rules }) =>
      rules.map((each): Command => ({ kind: 'addRule', chain: name, rule: each, source: null })),
    ),
  ];
}

function setElements({ key, family, interval, members }: NamedSet) {
  const keyLength = KEY_LENGTH[key][family];
  if (!interval) return { keyLength, interval, keys: members.singles };
  const digits = 2 * keyLength;
  const singles =
    Buffer.from(members.singles)
      .toString('hex')
      .match(new RegExp(`.{${digits}}`, 'g')) ?? [];
  const prefixes = members.prefixes.map(({ value, length }) => {
    const last = value | ((1n << BigInt(4 * digits - length)) - 1n);
    return [value, last].map((end) => end.toString(16).padStart(digits, '0')).join('');
  });
  const keys = Buffer.from([...singles.map((single) => single + single), ...prefixes].join(''), 'hex');
  return { keyLength, interval, keys };
}

/** The packets that a rule can be for. */
interface Context {
  readonly family: 4 | 6;
  readonly protocol: L4Protocol | 'several';
}

const CONTEXTS: readonly Context[] = ([4, 6] as const).flatMap((family) =>
  (
    [
      'tcp',
      'udp',
      'sctp',
      'several',
      family === 4 ? 'icmp' : 'icmpv6',
      ...(family === 4 ? ['igmp'] : []),
    ] as const
  ).map((protocol) => ({ family, protocol: protocol as Context['protocol'] })),
);

function fits(needs: Partial<Context>, { family, protocol }: Context): boolean {
  return (needs.family ?? family) === family && (needs.protocol ?? protocol) === protocol;
}

function matchNeeds(match: Match): Partial<Context> {
  switch (match.match) {
    case 'nfproto':
    case 'address':
    case 'serviceTuple':
    case 'notIn':
    case 'notInSet':
      return { family: match.family };
    case 'port':
    case 'originalPort':
      return { protocol: match.protocol };
    case 'dnsAnswer':
      return { protocol: 'udp' };
    case 'tcpSyn':
    case 'tcpNotFirst':
      return { protocol: 'tcp' };
    case 'l4proto': {
      const [only] = match.protocols;
      return { protocol: match.protocols.length === 1 && only ? only : 'several' };
    }
    case 'icmp':
      return { protocol: match.protocol, family: match.protocol === 'icmp' ? 4 : 6 };
    case 'igmp':
      return { protocol: 'igmp', family: 4 };
    default:
      return {};
  }
}

/**
 * No field is compared twice: libnftables then merges other fields than we do, with the same
 * effect.
 */
function comparedField(match: Match): string {
  if (match.match === 'dnsAnswer') return 'port sport';
  return 'field' in match ? `${match.match} ${match.field}` : match.match;
}

function statementNeeds(statement: Statement): Partial<Context> {
  switch (statement.kind) {
    case 'reject':
      return statement.with === 'tcp reset' ? { protocol: 'tcp' } : {};
    case 'portMap':
      return { protocol: statement.protocol };
    case 'addressMap':
    case 'snat':
    case 'addressMacMap':
    case 'addressInnerMacMap':
    case 'hashMap':
      return { family: statement.family };
    case 'maxSegment':
      return { protocol: 'tcp' };
    default:
      return {};
  }
}

/**
 * The kernel's data about each set, unparsed: NFT_MSG_GETSET asked for all sets of the namespace,
 * the attributes flags, types, lengths, description and userdata of each answer in hexadecimal
 * (linux/netfilter/nf_tables.h). Neither a snapshot nor `nft list` shows all of that.
 */
const RAW_SETS = `
import json, socket, struct
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
netlink.send(struct.pack('=IHHIIBBH', 20, 10 << 8 | 10, 0x301, 1, 0, 1, 0, 0))
sets, done = [], False
while not done:
    data = netlink.recv(1 << 20)
    while data:
        length, kind = struct.unpack('=IH', data[:6])
        done = done or kind == 3
        body, kept = data[20:length], {}
        while kind == 10 << 8 | 9 and len(body) >= 4:
            size, attribute = struct.unpack('=HH', body[:4])
            if attribute & 0x3fff in (3, 4, 5, 6, 7, 9, 13): kept[attribute & 0x3fff] = body[4:size].hex()
            body = body[(size + 3) & ~3:]
        if kept: sets.append(kept)
        data = data[(length + 3) & ~3:]
print(json.dumps(sets))
`;

function rawSets(): unknown[] {
  const { stdout, stderr, status } = spawnSync('python3', ['-c', RAW_SETS], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

inNamespace(import.meta.filename, () => {
  describe('a ruleset by netlink and its text by libnftables', function () {
    this.timeout(120_000);
    let netlink: Netlink;
    let nftables: Nftables;
    before(() => {
      netlink = new Netlink();
      nftables = new Nftables();
    });
    after(() => Promise.all([netlink.close(), nftables.close()]));
    beforeEach(() => nftables.run('flush ruleset'));

    /** The state in the kernel without handles and without the numbers of anonymous sets. */
    async function current() {
      const snapshot = await netlink.snapshot(TABLE.family, TABLE.name);
      assert.ok(snapshot);
      const named = snapshot.sets.filter(({ isAnonymous }) => !isAnonymous);
      const anonymous = snapshot.sets.filter(({ isAnonymous }) => isAnonymous);
      const elements = await Promise.all(
        named.map(({ name }) => netlink.elements({ family: TABLE.family, table: TABLE.name, set: name })),
      );
      return {
        chains: snapshot.chains.map(({ name, base, rules }) => ({
          name,
          base,
          rules: rules.map(({ comment, digest, packets }) => ({ comment, digest, packets })),
        })),
        sets: named.map(({ name, flags, keyLength }, i) => ({
          name,
          flags,
          keyLength,
          elements: elements[i],
        })),
        anonymous: anonymous.map(({ flags, keyLength, elementCount }) => ({
          flags,
          keyLength,
          elementCount,
        })),
        text: await nftables.run(`list table ${TABLE.family} ${TABLE.name}`),
      };
    }

    async function loaded(load: () => Promise<unknown>) {
      await nftables.run('flush ruleset');
      await load();
      return current();
    }

    async function assertSame(table: Ruleset): Promise<void> {
      const byText = await loaded(() => nftables.run(rulesetText(table)));
      const byNetlink = await loaded(() => netlink.batch(encode(toCommands(table)).operations));
      // Compares the most telling part first: each rule that differs, then everything.
      for (const { name, rules } of table.chains.values())
        for (const [i, each] of rules.entries())
          if (isConvertedByNft(each))
            for (const { chains } of [byText, byNetlink]) {
              const there = chains.find((chain) => chain.name === name)?.rules[i];
              if (there !== undefined) there.digest = '';
            }
      const digests = ({ chains }: typeof byText) =>
        new Map(chains.map(({ name, rules }) => [name, rules.map(({ digest }) => digest)]));
      const [expected, found] = [digests(byText), digests(byNetlink)];
      const different = [...table.chains.values()].flatMap(({ name, rules }) =>
        rules.filter((_, i) => found.get(name)?.[i] !== expected.get(name)?.[i]).map(ruleText),
      );
      assert.deepEqual(different, []);
      assert.equal(byNetlink.text, byText.text);
      assert.deepEqual(byNetlink, byText);
    }

    /** Also compares the sets byte for byte: for a few rulesets only, because it is slow. */
    async function assertSameBytes(table: Ruleset): Promise<void> {
      await assertSame(table);
      const byNetlink = rawSets();
      await loaded(() => nftables.run(rulesetText(table)));
      assert.deepEqual(byNetlink, rawSets());
      assert.ok(byNetlink.length >= table.sets.size + table.maps.size);
    }

    it('are the same for sets, maps and chains', () => assertSameBytes(whole([])));

    it('are the same for each kind of match', async () => {
      const tried = new Set(MATCHES.map(({ match }) => match));
      assert.equal(tried.size, 34, 'a new kind of match: add it to MATCHES, and count it here');
      await assertSameBytes(whole(MATCHES.map((match) => rule({ kind: 'return' }, match))));
    });

    it('are the same for each kind of statement', async () => {
      const tried = new Set(STATEMENTS.map(({ kind }) => kind));
      assert.equal(tried.size, 19, 'a new kind of statement: add it to STATEMENTS, and count it here');
      await assertSameBytes(whole(STATEMENTS.map((statement) => rule(statement))));
    });

    it('are the same for any compatible matches in a rule', async function () {
      const rules = fc.constantFrom(...CONTEXTS).chain((context) => {
        const matches = MATCHES.filter((match) => fits(matchNeeds(match), context));
        const statements = STATEMENTS.filter((statement) => fits(statementNeeds(statement), context));
        return fc.record({
          // libnftables merges two port matches with others between them, but not all of those with
          // a limit between them: render puts a limit last.
          matches: fc
            .uniqueArray(fc.constantFrom(...matches), { maxLength: 5, selector: comparedField })
            .map((drawn) =>
              drawn.toSorted((a, b) => Number(a.match === 'limit') - Number(b.match === 'limit')),
            ),
          counter: fc.boolean(),
          statement: fc.constantFrom(...statements),
          comment: fc.constant(null),
        });
      });
      await checkAsync(this, 25, fc.array(rules, { minLength: 200, maxLength: 200, size: 'max' }), (drawn) =>
        assertSame(whole(drawn)),
      );
    });

    it('reject a rule that names two protocols or families', async () => {
      const [v4, v6] = ([4, 6] as const).map(
        (family): Match => ({
          match: 'address',
          family,
          field: 'saddr',
          in: { cidr: { family, value: 0n, length: 0 } },
        }),
      );
      const [tcp, udp] = (['tcp', 'udp'] as const).map(
        (protocol): Match => ({ match: 'port', protocol, field: 'dport', ranges: [[1, 1]] }),
      );
      assert.ok(v4 && v6 && tcp && udp);
      await netlink.batch(encode(toCommands(whole([]))).operations);
      for (const matches of [
        [v4, v6],
        [tcp, udp],
      ]) {
        const wrong = rule({ kind: 'accept' }, ...matches);
        assert.throws(
          () => encode([{ kind: 'addRule', chain: 'c', rule: wrong, source: null }]),
          /cannot also match/,
        );
        const text = `add rule ${TABLE.family} ${TABLE.name} c ${ruleText(wrong)}`;
        await assert.rejects(nftables.run(text), /conflicting protocols/);
      }
    });

    it('are the same for random policies', async function () {
      const drawn = fc.constantFrom(1, 4, 10, 25).chain((size) => scenario({ size, flows: 0 }));
      await checkAsync(this, 25, drawn, async ({ objects, node, config }) => {
        const { indexed, linear } = renderBoth(toState(objects, node), toConfig(config));
        await assertSame(indexed);
        await assertSame(linear);
      });
    });

    it('are the same for random egress gateways', async function () {
      await checkAsync(this, 8, egressScenario(6, 0), async (drawn) => {
        for (const [node, egress] of toNodeEgress(drawn)) {
          await assertSame(render({ ...emptyNodeState(node), egress }, DEFAULT_CONFIG));
        }
      });
    });

    it('names the command that was refused', async () => {
      await netlink.batch(encode(toCommands(whole([]))).operations);
      const ports = MATCHES.find((match) => match.match === 'port' && match.ranges.length === 2);
      assert.ok(ports);
      const add = (statement: Statement): Command => ({
        kind: 'addRule',
        chain: 'c',
        rule: rule(statement, ports),
        source: null,
      });
      const { operations, commandOf } = encode([
        { kind: 'flushChain', name: 'c' },
        add({ kind: 'accept' }),
        add({ kind: 'jump', chain: 'nowhere' }),
      ]);
      assert.equal(operations.length, 7); // each rule has a set, which is two operations
      await assert.rejects(netlink.batch(operations), (error: { code?: string; operation?: number }) => {
        assert.equal(error.code, 'ENOENT');
        assert.equal(commandOf(error.operation ?? 0), 2);
        return true;
      });
      assert.throws(() => commandOf(7), RangeError);
    });

    it('changes existing objects', async () => {
      const load = (...commands: readonly Command[]) => netlink.batch(encode(commands).operations);
      await load(...toCommands(whole([rule({ kind: 'accept' })])));
      const handle = (await netlink.snapshot(TABLE.family, TABLE.name))?.chains.find(
        ({ name }) => name === 'c',
      )?.handle;
      await load({ kind: 'renameChain', name: 'c', handle: handle ?? 0, to: 'old' });
      const keys = Buffer.from([10, 0, 0, 1, 10, 0, 0, 9]);
      await load(
        { kind: 'flushElements', set: 'interval4', keyLength: 4, interval: true, keys: new Uint8Array() },
        { kind: 'addElements', set: 'interval4', keyLength: 4, interval: true, keys },
        { kind: 'deleteElements', set: 'hash4', keyLength: 4, interval: false, keys: keys.subarray(0, 4) },
        { kind: 'deleteSet', name: 'service6' },
        { kind: 'deleteSet', name: 'empty' },
        { kind: 'flushChain', name: 'old' },
        { kind: 'deleteChain', name: 'old' },
      );
      const { text, sets } = await current();
      assert.doesNotMatch(text, /service6|empty|chain (c|old) /);
      const elements = new Map(sets.map(({ name, elements: each }) => [name, each]));
      assert.deepEqual(Buffer.from(elements.get('interval4')?.ranges ?? []), keys);
      assert.equal(Buffer.from(elements.get('hash4')?.keys ?? []).toString('hex'), '0a000003');
      await load({ kind: 'deleteTable' });
      assert.equal(await netlink.snapshot(TABLE.family, TABLE.name), null);
    });
  });
});
