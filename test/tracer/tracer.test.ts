import assert from 'node:assert/strict';
import type { Match, NamedSet, NftRule, Ruleset, Statement } from '../../agent/render/ruleset.ts';
import type { ChainVerdict, VerdictMap } from '../../agent/render/verdict-map.ts';
import { parseAddress, parseCidr } from '../../lib/net/address.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { type Packet, VRF } from './packet.ts';
import { indexChain, inputChain, rule, ruleChain, ruleset, verdictMap } from './ruleset.ts';
import { tracer } from './tracer.ts';
import { MAX_DEPTH } from './walk.ts';

const ACCEPT = { kind: 'accept' } as const;
const DROP = { kind: 'drop' } as const;
const jump = (chain: string): Statement => ({ kind: 'jump', chain });
const goto = (chain: string): Statement => ({ kind: 'goto', chain });

const PROTOCOLS = { tcp: 6, udp: 17, sctp: 132, icmp: 1, icmpv6: 58, igmp: 2 } as const;

/** An ingress packet to TCP port 80, save for what is said. */
function packet(changes: Partial<Packet> = {}): Packet {
  return {
    direction: 'ingress',
    family: 4,
    src: value('10.0.0.7'),
    dst: value('192.0.2.1'),
    protocol: PROTOCOLS.tcp,
    srcPort: 40000,
    dstPort: 80,
    interface: { name: 'eth0', group: 0 },
    established: false,
    original: null,
    isForwarded: false,
    ...changes,
  };
}

function value(text: string): bigint {
  return parseAddress(text)?.value ?? assert.fail(text);
}

function cidr(text: string) {
  return parseCidr(text)?.cidr ?? assert.fail(text);
}

function verdictOf(table: Ruleset, changes: Partial<Packet> = {}): string {
  const { verdict, source, tried } = tracer(table)(packet(changes));
  return `${verdict} by ${source?.rule ?? 'nothing'}, ${tried} tried`;
}

describe('tracer: chains', () => {
  it('accepts at the end of a base chain', () => {
    assert.equal(verdictOf(ruleset([inputChain()])), 'Allow by nothing, 0 tried');
  });

  it('goes through all base chains of a hook, by priority', () => {
    const early = { type: 'filter', hook: 'input', priority: -5, policy: 'accept' } as const;
    const chains = [inputChain(rule(jump('a'))), ruleChain('a', rule(ACCEPT))];
    const own = (statement: Statement) => ({ ...indexChain('early', rule(statement)), base: early });
    assert.equal(verdictOf(ruleset([...chains, own(ACCEPT)])), 'Allow by a, 1 tried');
    assert.equal(verdictOf(ruleset([...chains, own(DROP)])), 'Drop by nothing, 0 tried');
  });

  it('continues after a jump if the chain has no verdict', () => {
    const table = ruleset([
      inputChain(rule(jump('a')), rule(jump('b'))),
      ruleChain('a', rule(DROP, { match: 'nfproto', family: 6 })),
      ruleChain('b', rule(DROP)),
    ]);
    assert.equal(verdictOf(table), 'Drop by b, 2 tried');
    assert.equal(verdictOf(table, { family: 6 }), 'Drop by a, 1 tried');
  });

  it('does not return from a goto', () => {
    const table = ruleset([
      inputChain(rule(jump('index'))),
      indexChain('index', rule(goto('a')), rule(jump('b'))),
      ruleChain('a'),
      ruleChain('b', rule(DROP)),
    ]);
    assert.equal(verdictOf(table), 'Allow by nothing, 1 tried');
  });

  it('returns after a goto to the chain that jumped', () => {
    const table = ruleset([
      inputChain(rule(jump('index')), rule(jump('b'))),
      indexChain('index', rule(goto('a')), rule(DROP)),
      indexChain('a'),
      ruleChain('b', rule(DROP)),
    ]);
    assert.equal(verdictOf(table), 'Drop by b, 1 tried');
  });

  it('names the rule that went to the reject chain', () => {
    const table = ruleset([
      inputChain(rule(jump('a'))),
      ruleChain('a', rule(goto('refuse'))),
      indexChain(
        'refuse',
        rule({ kind: 'reject', with: 'tcp reset' }),
        rule({ kind: 'reject', with: 'icmpx admin-prohibited' }),
      ),
    ]);
    assert.equal(verdictOf(table), 'Reject by a, 1 tried');
    assert.equal(verdictOf(table, { protocol: PROTOCOLS.udp }), 'Reject by a, 1 tried');
  });

  it('resets nothing but TCP', () => {
    const table = ruleset([inputChain(rule({ kind: 'reject', with: 'tcp reset' }))]);
    assert.equal(verdictOf(table), 'Reject by nothing, 0 tried');
    assert.equal(verdictOf(table, { protocol: PROTOCOLS.udp }), 'Allow by nothing, 0 tried');
  });

  it('continues after a map without an entry for the packet', () => {
    const entry = { kind: 'jump', chain: 'a' } as const;
    const chains = [
      inputChain(
        rule({ kind: 'portMap', protocol: 'tcp', field: 'dport', original: false, map: 'm' }),
        rule(jump('b')),
      ),
      ruleChain('a', rule(DROP)),
      ruleChain('b', rule(ACCEPT)),
    ];
    const maps = [verdictMap('m', null, [[80, entry]]), verdictMap('m', null, [[[70n, 80n], entry]])];
    for (const table of maps.map((map) => ruleset(chains, { maps: [map] }))) {
      assert.equal(verdictOf(table), 'Drop by a, 1 tried');
      assert.equal(verdictOf(table, { dstPort: 81 }), 'Allow by b, 1 tried');
      assert.throws(() => verdictOf(table, { protocol: PROTOCOLS.udp }), /comes to a map for tcp alone/);
    }
  });

  it('refuses a packet of another protocol where it is not compared', () => {
    const ranges = [[80, 80] as const];
    const known = { match: 'port', protocol: 'tcp', field: 'dport', ranges, isProtocolKnown: true } as const;
    const table = ruleset([inputChain({ ...rule(DROP), matches: [known] })]);
    assert.equal(verdictOf(table), 'Drop by nothing, 0 tried');
    assert.throws(() => verdictOf(table, { protocol: PROTOCOLS.udp }), /comes to a rule for tcp alone/);
  });

  it('finds an address in a map of its family and field', () => {
    const [a, b] = [goto('a') as ChainVerdict, jump('b') as ChainVerdict];
    const chains = (field: 'saddr' | 'daddr', family: 4 | 6) => [
      inputChain(rule({ kind: 'addressMap', family, field, map: 'm' }), rule(jump('b'))),
      ruleChain('a', rule(DROP)),
      ruleChain('b', rule(ACCEPT)),
    ];
    const found = (field: 'saddr' | 'daddr', map: VerdictMap, changes: Partial<Packet> = {}) =>
      verdictOf(ruleset(chains(field, map.family ?? 4), { maps: [map] }), changes);
    const hash = verdictMap('m', 4, [
      [value('10.0.0.7'), a],
      [value('10.0.0.9'), b],
    ]);
    assert.equal(found('saddr', hash), 'Drop by a, 1 tried');
    assert.equal(found('daddr', hash), 'Allow by b, 1 tried');
    assert.equal(found('saddr', hash, { src: value('10.0.0.8') }), 'Allow by b, 1 tried');
    const ranges = verdictMap('m', 4, [[[value('10.0.0.0'), value('10.0.0.7')], a]]);
    assert.equal(found('saddr', ranges), 'Drop by a, 1 tried');
    assert.equal(found('saddr', ranges, { src: value('10.0.0.8') }), 'Allow by b, 1 tried');
    const wide = verdictMap('m', 6, [[[value('2001:db8::'), value('2001:db8::ff')], a]]);
    assert.equal(found('saddr', wide, { family: 6, src: value('2001:db8::a') }), 'Drop by a, 1 tried');
    assert.equal(found('saddr', wide, { src: value('2001:db8::a') }), 'Allow by b, 1 tried');
  });

  it('counts the maps that a packet is looked up in', () => {
    const entry = { kind: 'jump', chain: 'inner' } as const;
    const table = ruleset(
      [
        inputChain(
          rule({ kind: 'portMap', protocol: 'tcp', field: 'dport', original: false, map: 'ports' }),
          rule({ kind: 'addressMap', family: 6, field: 'saddr', map: 'six' }),
        ),
        indexChain('inner', rule({ kind: 'addressMap', family: 4, field: 'saddr', map: 'four' })),
      ],
      {
        maps: [
          verdictMap('ports', null, [[80, entry]]),
          verdictMap('four', 4, [[1n, entry]]),
          verdictMap('six', 6, [[1n, entry]]),
        ],
      },
    );
    const lookUps = (changes: Partial<Packet>) => tracer(table)(packet(changes)).lookUps;
    assert.deepEqual([lookUps({}), lookUps({ dstPort: 81 })], [2, 1]);
  });

  it('gives another verdict for a table that is broken on purpose', () => {
    const rules = [
      rule(ACCEPT, { match: 'port', protocol: 'tcp', field: 'dport', ranges: [[80, 80]] }),
      rule(DROP),
    ];
    assert.equal(verdictOf(ruleset([inputChain(...rules)])), 'Allow by nothing, 0 tried');
    assert.equal(verdictOf(ruleset([inputChain(...rules.toReversed())])), 'Drop by nothing, 0 tried');
    assert.equal(verdictOf(ruleset([inputChain(...rules.slice(1))])), 'Drop by nothing, 0 tried');
  });
});

describe('tracer: throws on what the kernel rejects', () => {
  const throws = (table: Ruleset, message: RegExp, changes: Partial<Packet> = {}): void => {
    assert.throws(() => verdictOf(table, changes), message);
  };
  const input = (...rules: NftRule[]) => ruleset([inputChain(...rules)]);

  it('a match it does not know', () => {
    throws(input(rule(DROP, { match: 'cpu', cpu: 7 } as unknown as Match)), /unknown match .*cpu/);
  });
  it('a statement it does not know', () => {
    throws(input(rule({ kind: 'queue' } as unknown as Statement)), /unknown statement .*queue/);
    const reject = { kind: 'reject', with: 'icmp net-unreachable' } as unknown as Statement;
    throws(input(rule(reject)), /unknown reject .*net-unreachable/);
  });
  it('a protocol it does not know', () => {
    throws(
      input(rule(DROP, { match: 'l4proto', protocols: ['gre'] } as unknown as Match)),
      /unknown protocol gre/,
    );
  });
  it('a chain, set or map that is not there', () => {
    throws(input(rule(jump('a'))), /input: no chain a/);
    throws(
      input(rule({ kind: 'portMap', protocol: 'tcp', field: 'dport', original: false, map: 'm' })),
      /no map m/,
    );
    throws(input(rule({ kind: 'addressMap', family: 4, field: 'saddr', map: 'm' })), /no map m/);
    throws(input(rule(DROP, { match: 'address', family: 4, field: 'saddr', in: { set: 's' } })), /no set s/);
  });
  it('a jump to a base chain, and no base chain at the hook', () => {
    throws(input(rule(jump('input'))), /input is a base chain/);
    throws(input(), /no base chain at the hook output/, { direction: 'egress' });
  });
  it('prefixes in a set that is not for intervals, a set of the other family', () => {
    const { v4: members } = toMemberSet([{ cidr: cidr('10.0.0.0/8'), except: [] }], []);
    const set: NamedSet = { name: 's', family: 4, key: 'address', interval: false, members, comment: '' };
    const use = (family: 4 | 6) => [
      inputChain(rule(DROP, { match: 'address', family, field: 'saddr', in: { set: 's' } })),
    ];
    throws(ruleset(use(4), { sets: [set] }), /s is no interval set and has prefixes/);
    throws(ruleset(use(6), { sets: [set] }), /set s is of the other family/, { family: 6 });
  });
  it('a map of other keys', () => {
    const chains = [inputChain(rule({ kind: 'addressMap', family: 4, field: 'saddr', map: 'm' }))];
    throws(ruleset(chains, { maps: [verdictMap('m', null, [])] }), /m has other keys/);
    throws(ruleset(chains, { maps: [verdictMap('m', 6, [])] }), /m has other keys/);
  });
  it('overlapping elements', () => {
    const entry = { kind: 'jump', chain: 'input' } as const;
    const ranges = [
      [1, 80],
      [80, 90],
    ] as const;
    const tuple = { protocol: 'tcp', sourcePorts: [0, 65535], ports: [80, 80] } as const;
    const types = [
      { type: 8, code: null },
      { type: 8, code: 0 },
    ];
    const icmp = { protocol: PROTOCOLS.icmp, type: 8, code: 0 };
    throws(
      input(rule(DROP, { match: 'port', protocol: 'tcp', field: 'dport', ranges })),
      /overlapping ranges/,
    );
    const portMap = inputChain(
      rule({ kind: 'portMap', protocol: 'tcp', field: 'dport', original: false, map: 'm' }),
    );
    const withMap = (...keys: [bigint, bigint][]) =>
      ruleset([portMap], {
        maps: [
          verdictMap(
            'm',
            null,
            keys.map((key) => [key, entry]),
          ),
        ],
      });
    throws(withMap([1n, 80n], [80n, 90n]), /overlapping keys 80/);
    throws(withMap([1n, 90n], [70n, 80n]), /overlapping keys 70/);
    throws(withMap([80n, 70n]), /no range/);
    throws(
      input(rule(DROP, { match: 'portTuple', withSourcePort: true, tuples: [tuple, tuple] })),
      /overlapping tuples/,
    );
    throws(input(rule(DROP, { match: 'icmp', protocol: 'icmp', types })), /overlapping ICMP types/, icmp);
  });
  it(`chains that call each other more than ${MAX_DEPTH} deep, also by goto`, () => {
    const chain = (depth: number, how: typeof jump) =>
      ruleset([
        inputChain(rule(how('c1'))),
        ...Array.from({ length: depth }, (_, i) =>
          indexChain(`c${i + 1}`, ...(i + 1 < depth ? [rule(how(`c${i + 2}`))] : [])),
        ),
      ]);
    for (const how of [jump, goto]) {
      assert.equal(verdictOf(chain(MAX_DEPTH - 1, how)), 'Allow by nothing, 0 tried');
      throws(chain(MAX_DEPTH, how), /16 chains deep/);
      throws(ruleset([inputChain(rule(how('a'))), indexChain('a', rule(how('a')))]), /16 chains deep/);
    }
  });
});

/** One row for each match: packets that meet it, packets that don't. */
const MATCHES: readonly {
  match: Match;
  yes: readonly Partial<Packet>[];
  no: readonly Partial<Packet>[];
}[] = [
  { match: { match: 'ctEstablished' }, yes: [{ established: true }], no: [{}] },
  {
    match: { match: 'loopback', field: 'iif' },
    yes: [{ interface: { name: 'lo', group: 0 } }],
    no: [{}],
  },
  { match: { match: 'loopback', field: 'oif' }, yes: [], no: [{ interface: { name: 'lo', group: 0 } }] },
  {
    match: { match: 'interfaceGroup', field: 'iifgroup', groups: [8], negated: false },
    yes: [{ interface: { name: 'eth0', group: 8 } }],
    no: [{}],
  },
  {
    match: { match: 'interfaceGroup', field: 'oifgroup', groups: [8], negated: false },
    yes: [],
    no: [{ interface: { name: 'eth0', group: 8 } }],
  },
  { match: { match: 'nfproto', family: 6 }, yes: [{ family: 6 }], no: [{}] },
  {
    match: { match: 'l4proto', protocols: ['icmpv6', 'igmp'] },
    yes: [{ protocol: PROTOCOLS.icmpv6 }, { protocol: PROTOCOLS.igmp, family: 6 }],
    no: [{}, { protocol: PROTOCOLS.icmp }],
  },
  {
    match: { match: 'address', family: 4, field: 'saddr', in: { cidr: cidr('10.0.0.0/29') } },
    yes: [{}, { src: value('10.0.0.0') }],
    no: [{ src: value('10.0.0.8') }, { src: value('9.255.255.255') }, { family: 6 }],
  },
  {
    match: { match: 'address', family: 4, field: 'daddr', in: { set: 'some' } },
    yes: [{ dst: value('10.0.0.1') }, { dst: value('172.16.3.4') }],
    no: [{ dst: value('10.0.0.2') }, { dst: value('172.17.0.0') }, { src: value('10.0.0.1') }],
  },
  {
    match: { match: 'address', family: 6, field: 'saddr', in: { set: 'some6' } },
    yes: [{ family: 6, src: value('2001:db8::1') }],
    no: [
      { family: 6, src: value('2001:db8::2') },
      { family: 4, src: value('2001:db8::1') },
    ],
  },
  {
    match: {
      match: 'port',
      protocol: 'tcp',
      field: 'dport',
      ranges: [
        [22, 22],
        [79, 81],
      ],
    },
    yes: [{}, { dstPort: 22 }, { dstPort: 79 }, { dstPort: 81 }],
    no: [{ dstPort: 78 }, { dstPort: 82 }, { protocol: PROTOCOLS.udp }, { srcPort: 80, dstPort: 1 }],
  },
  {
    match: { match: 'port', protocol: 'udp', field: 'sport', ranges: [[53, 53]] },
    yes: [{ protocol: PROTOCOLS.udp, srcPort: 53 }],
    no: [{ srcPort: 53 }, { protocol: PROTOCOLS.udp, dstPort: 53 }],
  },
  {
    match: {
      match: 'portTuple',
      withSourcePort: true,
      tuples: [{ protocol: 'sctp', sourcePorts: [1, 9], ports: [80, 89] }],
    },
    yes: [{ protocol: PROTOCOLS.sctp, srcPort: 9 }],
    no: [
      { srcPort: 9 },
      { protocol: PROTOCOLS.sctp, srcPort: 10 },
      { protocol: PROTOCOLS.sctp, srcPort: 9, dstPort: 90 },
    ],
  },
  {
    match: {
      match: 'portTuple',
      withSourcePort: false,
      tuples: [{ protocol: 'tcp', sourcePorts: [0, 65535], ports: [80, 80] }],
    },
    yes: [{}],
    no: [{ protocol: PROTOCOLS.udp }, { dstPort: 81 }],
  },
  {
    match: {
      match: 'icmp',
      protocol: 'icmp',
      types: [
        { type: 3, code: null },
        { type: 8, code: 0 },
      ],
    },
    yes: [
      { protocol: PROTOCOLS.icmp, type: 3, code: 4 },
      { protocol: PROTOCOLS.icmp, type: 8, code: 0 },
    ],
    no: [
      {},
      { protocol: PROTOCOLS.icmp, type: 8, code: 1 },
      { protocol: PROTOCOLS.icmp, type: 3, code: 4, family: 6 },
      { protocol: PROTOCOLS.icmpv6, type: 3, code: 4, family: 6 },
    ],
  },
  {
    match: { match: 'icmp', protocol: 'icmpv6', types: [{ type: 128, code: null }] },
    yes: [{ protocol: PROTOCOLS.icmpv6, family: 6, type: 128, code: 0 }],
    no: [{ protocol: PROTOCOLS.icmpv6, family: 4, type: 128, code: 0 }],
  },
  {
    match: { match: 'interfaceGroup', field: 'iifgroup', groups: [8, 9], negated: true },
    yes: [{}],
    no: [{ interface: { name: 'eth0', group: 9 } }],
  },
  { match: { match: 'ctConfirmed' }, yes: [{ established: true }], no: [{}] },
  {
    match: { match: 'dnsAnswer' },
    yes: [{ established: true, protocol: PROTOCOLS.udp, srcPort: 53 }],
    no: [
      { protocol: PROTOCOLS.udp, srcPort: 53 },
      { established: true, srcPort: 53 },
    ],
  },
  { match: { match: 'limit', perSecond: 1, burst: 1 }, yes: [{}], no: [] },
  {
    match: { match: 'serviceTuple', family: 4, set: 'services' },
    yes: [{ dst: value('10.96.0.1'), dstPort: 443 }],
    no: [
      { dst: value('10.96.0.1'), dstPort: 80 },
      { dst: value('10.96.0.2'), dstPort: 443 },
      { dst: value('10.96.0.1'), dstPort: 443, protocol: PROTOCOLS.udp },
      { dst: value('10.96.0.1'), dstPort: 443, family: 6 },
    ],
  },
  {
    match: { match: 'notIn', family: 4, field: 'daddr', cidrs: [cidr('192.0.2.0/24')] },
    yes: [{ dst: value('192.0.3.0') }],
    no: [{ dst: value('192.0.2.255') }, { family: 6, dst: value('2001:db8::1') }],
  },
  {
    match: { match: 'notIn', family: 6, field: 'saddr', cidrs: [cidr('fe80::/10')] },
    yes: [{ family: 6, src: value('2001:db8::1') }],
    no: [{ family: 6, src: value('febf::1') }, {}],
  },
  { match: { match: 'local', field: 'saddr' }, yes: [{ isFromOwn: true }], no: [{}, { isToOwn: true }] },
  { match: { match: 'local', field: 'daddr' }, yes: [{ isToOwn: true }], no: [{}, { isFromOwn: true }] },
  { match: { match: 'vrf' }, yes: [], no: [{}] },
  {
    match: { match: 'toVrf', device: VRF },
    yes: [{ interface: { name: VRF, group: 0 } }],
    no: [{}, { interface: { name: 'lo', group: 0 } }],
  },
  { match: { match: 'toMany' }, yes: [{ isMulticast: true }], no: [{}] },
  { match: { match: 'notEther' }, yes: [{ interface: { name: 'lo', group: 0 } }], no: [{}] },
  { match: { match: 'etherHeader' }, yes: [{}, { isMulticast: true }], no: [{ isOwnCopy: true }] },
  { match: { match: 'ctUntracked' }, yes: [{ isUntracked: true }], no: [{}, { established: true }] },
  {
    match: { match: 'tcpNotFirst' },
    yes: [{ isUntracked: true }],
    no: [{}, { isUntracked: true, protocol: PROTOCOLS.udp }],
  },
  { match: { match: 'ctNew' }, yes: [{}], no: [{ established: true }, { isUntracked: true }] },
  {
    match: { match: 'ctDirection', direction: 'reply' },
    yes: [{ ctDirection: 'reply' }],
    no: [{}, { ctDirection: 'reply', isUntracked: true }],
  },
  {
    match: { match: 'ctNoSnat' },
    yes: [{}, { binding: { from: 1n, to: 1n } }],
    no: [{ binding: { from: 1n, to: 2n } }, { isUntracked: true }],
  },
  {
    match: { match: 'mark', of: 'meta', mask: 0xff000000, value: 0x87000000, negated: false },
    yes: [{ mark: 0x87000001 }],
    no: [{}, { mark: 0x07000000 }, { ctMark: 0x87000000 }],
  },
  {
    match: { match: 'mark', of: 'ct', mask: 0x7f000000, value: 0, negated: true },
    yes: [{ ctMark: 0x40000000 }],
    no: [{}, { ctMark: 0x80ffffff }, { ctMark: 0x40000000, isUntracked: true }],
  },
  {
    match: { match: 'ctLabel', bits: [5, 112], negated: false },
    yes: [{ ctLabels: [5] }, { ctLabels: [4, 112] }],
    no: [{}, { ctLabels: [4] }, { ctLabels: [5], isUntracked: true }],
  },
  {
    match: { match: 'ctLabel', bits: [5, 112], negated: true },
    yes: [{}, { ctLabels: [4] }],
    no: [{ ctLabels: [112] }, { isUntracked: true }],
  },
  {
    match: { match: 'notInSet', family: 4, field: 'saddr', set: 'some' },
    yes: [{}],
    no: [{ src: value('10.0.0.1') }, { src: value('172.16.9.9') }, { family: 6 }],
  },
  { match: { match: 'pastDeadline', family: 4, set: 'some' }, yes: [{}], no: [{ family: 6 }] },
  { match: { match: 'noRouteBack' }, yes: [{ lacksRouteBack: true }], no: [{}] },
  { match: { match: 'fromSocket' }, yes: [{ hasSocket: true }], no: [{}] },
  { match: { match: 'tcpSyn' }, yes: [{ isSyn: true }], no: [{}, { isSyn: true, protocol: PROTOCOLS.udp }] },
  {
    match: { match: 'l4proto', protocols: ['igmp', 112] },
    yes: [{ protocol: PROTOCOLS.igmp }, { protocol: 112 }],
    no: [{ protocol: 89 }, {}],
  },
  {
    match: { match: 'igmp', types: [17, 22] },
    yes: [{ protocol: PROTOCOLS.igmp, type: 22 }],
    no: [{ protocol: PROTOCOLS.igmp, type: 18 }, { protocol: PROTOCOLS.igmp, type: 22, family: 6 }, {}],
  },
];

describe('tracer: traffic after destination NAT', () => {
  const base = { type: 'filter', hook: 'prerouting', priority: -90, policy: 'accept' } as const;
  const prerouting = (...rules: NftRule[]) =>
    ruleset([{ ...inputChain(...rules), name: 'prerouting', base }]);
  const nodePort = { dstPort: 8080, original: { dst: 0n, dstPort: 30080 }, isForwarded: true };
  const original = { match: 'originalPort', protocol: 'tcp', ranges: [[30000, 30100]] } as const;

  it('is evaluated before routing, by the port before NAT', () => {
    assert.equal(
      verdictOf(prerouting(rule(DROP, { match: 'ctDnat' }, original)), nodePort),
      'Drop by nothing, 0 tried',
    );
    const other = { ...nodePort, original: { dst: 0n, dstPort: 8080 } };
    assert.equal(verdictOf(prerouting(rule(DROP, original)), other), 'Allow by nothing, 0 tried');
    const udp = { ...nodePort, protocol: PROTOCOLS.udp };
    assert.equal(verdictOf(prerouting(rule(DROP, original)), udp), 'Allow by nothing, 0 tried');
  });

  it('is found in maps by the port before NAT, too', () => {
    const entry = { kind: 'jump', chain: 'a' } as const;
    for (const key of [30080, [30080n, 30090n]] as const) {
      const { chains } = prerouting(
        rule({ kind: 'portMap', protocol: 'tcp', field: 'dport', original: true, map: 'ports' }),
      );
      const table = ruleset([...chains.values(), ruleChain('a', rule(DROP))], {
        maps: [verdictMap('ports', null, [[key, entry]])],
      });
      assert.equal(verdictOf(table, nodePort), 'Drop by a, 1 tried');
      assert.equal(
        verdictOf(table, { ...nodePort, original: { dst: 0n, dstPort: 8080 } }),
        'Allow by nothing, 0 tried',
      );
    }
  });
});

describe('tracer: the destination before NAT', () => {
  const led = { dst: 0x0a000001n, dstPort: 8443, original: { dst: 0x0a600009n, dstPort: 443 } };
  const wasPort = { match: 'originalPort', protocol: 'tcp', ranges: [[443, 443]] } as const;
  const wasAt = (text: string): Match => ({
    match: 'address',
    family: 4,
    field: 'originalDaddr',
    in: { cidr: cidr(text) },
  });

  it('is matched beside the one after NAT; without NAT they are the same', () => {
    const table = (...matches: Match[]) => ruleset([inputChain(rule(DROP, ...matches))]);
    const verdict = (changes: Partial<Packet>, ...matches: Match[]) =>
      tracer(table(...matches))(packet(changes)).verdict;
    assert.equal(verdict(led, { match: 'ctDnat' }, wasPort, wasAt('10.96.0.0/16')), 'Drop');
    assert.equal(verdict(led, wasAt('10.0.0.0/16')), 'Allow');
    const straight = { ...led, dstPort: 443, original: null };
    assert.equal(verdict(straight, wasPort, wasAt('10.0.0.0/16')), 'Drop');
    assert.equal(verdict(straight, { match: 'ctDnat' }), 'Allow');
  });
});

describe('tracer: records', () => {
  const log = { kind: 'log', prefix: 'p', group: 1, copyRange: 128, queueThreshold: 1 } as const;

  it('are written during evaluation, and `return` after a goto returns to the caller', () => {
    const counting = { ...rule(goto('record')), counter: true };
    const table = ruleset([
      inputChain(rule(jump('index'))),
      indexChain('index', rule(jump('a')), rule(jump('b'))),
      ruleChain('a', counting, rule(ACCEPT)),
      { ...indexChain('record', { ...rule(log), counter: true }, rule({ kind: 'return' })), ruleId: 'a' },
      ruleChain('b', rule(DROP)),
    ]);
    const { verdict, source, counted, recorded } = tracer(table)(packet());
    assert.deepEqual([verdict, source?.rule, counted, recorded], ['Drop', 'b', ['a'], ['p']]);
  });
});

describe('tracer: matches', () => {
  const members = toMemberSet([{ cidr: cidr('172.16.0.0/16'), except: [] }], ['10.0.0.1', '2001:db8::1']);
  const sets: NamedSet[] = [
    { name: 'some', family: 4, key: 'address', interval: true, members: members.v4, comment: '' },
    {
      name: 'services',
      family: 4,
      key: 'service',
      interval: false,
      members: { singles: Buffer.from('0a6000010600000001bb0000', 'hex'), prefixes: [] },
      comment: '',
    },
    { name: 'some6', family: 6, key: 'address', interval: false, members: members.v6, comment: '' },
  ];
  for (const { match, yes, no } of MATCHES) {
    it(
      JSON.stringify(match, (_, part: unknown) => (typeof part === 'bigint' ? `${part}` : part)),
      () => {
        const table = ruleset([inputChain(rule(DROP, match))], { sets });
        for (const changes of yes) assert.equal(tracer(table)(packet(changes)).verdict, 'Drop');
        for (const changes of no) assert.equal(tracer(table)(packet(changes)).verdict, 'Allow');
      },
    );
  }
  it('is tried with every kind of match', () => {
    const kinds = new Set(MATCHES.map(({ match }) => match.match));
    const all = {
      ctEstablished: true,
      loopback: true,
      interfaceGroup: true,
      nfproto: true,
      l4proto: true,
      address: true,
      port: true,
      portTuple: true,
      icmp: true,
      igmp: true,
      ctConfirmed: true,
      dnsAnswer: true,
      limit: true,
      serviceTuple: true,
      notIn: true,
      local: true,
      vrf: true,
      toVrf: true,
      toMany: true,
      notEther: true,
      etherHeader: true,
      ctNew: true,
      ctDirection: true,
      ctNoSnat: true,
      mark: true,
      ctLabel: true,
      notInSet: true,
      pastDeadline: true,
      noRouteBack: true,
      fromSocket: true,
      tcpSyn: true,
      ctUntracked: true,
      tcpNotFirst: true,
    };
    // These two are of another hook.
    const others: Record<Exclude<Match['match'], keyof typeof all>, true> = {
      ctDnat: true,
      originalPort: true,
    };
    assert.equal(Object.keys(others).length, 2);
    assert.deepEqual([...kinds].sort(), Object.keys(all).sort());
  });
});
