import type { IpSet, IptablesRule, IptablesRuleset } from '../../agent/render/iptables/tables.ts';
import type { RuleSource } from '../../apis/compiled.ts';
import type { Verdict } from '../../apis/flow.ts';
import { type Cidr, covers, type Family, parseAddress, parseCidr, WIDTH } from '../../lib/net/address.ts';
import { type FamilyMembers, hasMember, NO_MEMBERS, packAddress } from '../../lib/net/member-set.ts';
import type { Packet } from './packet.ts';
import { MAX_DEPTH } from './walk.ts';

/**
 * Walks the first packet of a connection through rendered iptables rules as the kernel would
 * (ip_tables.c, ipt_do_table), by what their texts say. It throws on what it doesn't know, on
 * chains deeper than iptables-nft may have, and where something is accepted in FORWARD, where
 * others must still judge it.
 */
type IptablesTracer = (packet: Packet) => IptablesTrace;

export interface IptablesTrace {
  readonly verdict: Verdict;
  /** The policy rule that dropped or rejected it; null where nothing did. */
  readonly source: RuleSource | null;
  /** Ids of the policy rules that counted it, in order. */
  readonly counted: readonly string[];
  /** Prefixes of the records that were written. */
  readonly recorded: readonly string[];
}

/** Whether a packet is what an option and its value say. */
type Test = (packet: Packet) => boolean;

interface Parsed {
  readonly rule: IptablesRule;
  readonly tests: readonly Test[];
  /** Null: none. */
  readonly target: { readonly option: '-j' | '-g'; readonly name: string } | null;
  readonly prefix: string | null;
}

export function iptablesTracer({ families, sets }: IptablesRuleset): IptablesTracer {
  const parsed = new Map<IptablesRule, Parsed>();
  return (packet) => {
    const builtin = packet.isForwarded ? 'FORWARD' : packet.direction === 'ingress' ? 'INPUT' : 'OUTPUT';
    const filter = families[packet.family].find(({ name }) => name === 'filter');
    const counted: string[] = [];
    const recorded: string[] = [];
    let source: RuleSource | null = null;

    /** Null: the end of the chain. */
    function walk(name: string, depth: number): Verdict | null {
      if (depth > MAX_DEPTH) throw new Error(`${name} is called ${depth} chains deep`);
      const chain = filter?.chains.get(name);
      if (chain === undefined) throw new Error(`no chain ${name}`);
      for (const rule of chain.rules) {
        const found = parsed.get(rule) ?? parse(rule, sets);
        parsed.set(rule, found);
        const { tests, target, prefix } = found;
        if (!tests.every((test) => test(packet))) continue;
        if (rule.counts?.kind === 'matched' && rule.counts.ruleId !== 'spoofed')
          counted.push(rule.counts.ruleId);
        source = rule.source ?? source;
        if (prefix !== null) recorded.push(prefix);
        switch (target?.name) {
          case undefined:
          case 'NFLOG':
            continue;
          case 'RETURN':
            return null;
          case 'ACCEPT':
            if (builtin === 'FORWARD') throw new Error(`${name} accepts in FORWARD: ${rule.text}`);
            return 'Allow';
          case 'DROP':
            return 'Drop';
          case 'REJECT':
            return 'Reject';
          default: {
            const { name: called = '', option } = target ?? {};
            const verdict = walk(called, depth + 1);
            if (verdict !== null || option === '-g') return verdict;
          }
        }
      }
      return null;
    }

    for (const { from, to } of filter?.jumps ?? []) {
      const verdict = from === builtin ? walk(to, 2) : null;
      if (verdict !== null)
        return { verdict, source: verdict === 'Allow' ? null : source, counted, recorded };
    }
    return { verdict: 'Allow', source: null, counted, recorded };
  };
}

function parse(rule: IptablesRule, sets: ReadonlyMap<string, IpSet>): Parsed {
  const words = [...rule.text.matchAll(/"((?:\\.|[^"\\])*)"|(\S+)/g)].map(([, quoted, plain]) =>
    quoted === undefined ? (plain ?? '') : quoted.replaceAll(/\\(.)/g, '$1'),
  );
  const tests: Test[] = [];
  let target: Parsed['target'] = null;
  let prefix: string | null = null;
  for (let i = 0; i < words.length; i++) {
    const negated = words[i] === '!';
    if (negated) i++;
    const option = words[i] ?? '';
    const value = words[++i] ?? '';
    if (option === '-j' || option === '-g') target = { option, name: value };
    else if (option === '--nflog-prefix') prefix = value;
    else if (option === '--match-set') {
      const isIn = inSet(sets.get(value), words[++i] ?? '');
      tests.push(negated ? (packet) => !isIn(packet) : isIn);
    } else if (option === '--tcp-flags') {
      // Only a tracked TCP packet is the first of its connection here.
      if (words[++i] !== 'SYN' || !negated) throw new Error(`unknown flags: ${rule.text}`);
      tests.push((packet) => packet.isUntracked === true);
    } else if (option === '--mac-source') {
      // Without an Ethernet header neither the match nor its negation holds (xt_mac.c).
      tests.push((packet) => hasHeader(packet) && (packet.sourceMac === value) !== negated);
    } else if (!SAYS_NOTHING.includes(option)) {
      const make = TESTS[option];
      if (make === undefined) throw new Error(`unknown option ${option}: ${rule.text}`);
      const test = make(value);
      tests.push(negated ? (packet) => !test(packet) : test);
    }
  }
  return { rule, tests, target, prefix };
}

function hasHeader({ isOwnCopy, interface: { name } }: Packet): boolean {
  return name !== 'lo' && isOwnCopy !== true;
}

/** Of a first packet, below every limit. */
const SAYS_NOTHING = [
  '--comment',
  '--limit',
  '--limit-burst',
  '--reject-with',
  '--nflog-group',
  '--nflog-size',
  '--nflog-threshold',
];

const TESTS: Readonly<Record<string, (value: string) => Test>> = {
  '-s': (value) => (packet) => covers(cidr(value), host(packet.family, packet.src)),
  '-d': (value) => (packet) => covers(cidr(value), host(packet.family, packet.dst)),
  '-i': (value) => (packet) => packet.direction === 'ingress' && packet.interface.name === value,
  '-o': (value) => (packet) => packet.direction === 'egress' && packet.interface.name === value,
  // A match's own options follow; that for AH of IPv6 needs none.
  '-m': (value) => (packet) => value !== 'ah' || packet.protocol === 51,
  '-p': (value) => (packet) => packet.protocol === protocolOf(value),
  '--sport': (value) => (packet) => inRanges(value, packet.srcPort),
  '--sports': (value) => (packet) => inRanges(value, packet.srcPort),
  '--dport': (value) => (packet) => inRanges(value, packet.dstPort),
  '--dports': (value) => (packet) => inRanges(value, packet.dstPort),
  '--ctorigdstport': (value) => (packet) => inRanges(value, (packet.original ?? packet).dstPort),
  '--ctorigdst': (value) => (packet) =>
    covers(cidr(value), host(packet.family, (packet.original ?? packet).dst)),
  '--ctstate': (value) => (packet) => {
    if (value === 'UNTRACKED') return packet.isUntracked === true;
    return value === 'DNAT' ? packet.original !== null : packet.established && value.includes('ESTABLISHED');
  },
  '--ctstatus': () => () => false,
  '--ctdir': () => () => false,
  '--pkt-type': () => (packet) => packet.isMulticast !== true,
  '--src-type': () => (packet) => packet.isFromOwn === true,
  '--dst-type': () => (packet) => packet.isToOwn === true,
  '--src-group': (value) => (packet) => packet.direction === 'ingress' && inGroup(value, packet),
  '--dst-group': (value) => (packet) => packet.direction === 'egress' && inGroup(value, packet),
  '--icmp-type': (value) => (packet) => ofType(value, packet),
  '--icmpv6-type': (value) => (packet) => ofType(value, packet),
  '--u32': (value) => (packet) => ofBytes(value, packet),
};

const PROTOCOLS: Readonly<Record<string, number>> = {
  icmp: 1,
  igmp: 2,
  ipencap: 4,
  tcp: 6,
  udp: 17,
  dccp: 33,
  gre: 47,
  esp: 50,
  ah: 51,
  ipv6: 41,
  'ipv6-icmp': 58,
  ospf: 89,
  vrrp: 112,
  sctp: 132,
  udplite: 136,
};

/** To iptables protocol 0 is every protocol. */
function protocolOf(text: string): number {
  const number = PROTOCOLS[text] ?? Number(text);
  if (!(number > 0 && number <= 255)) throw new Error(`unknown protocol ${text}`);
  return number;
}

/** A prefix; iptables-save says an original destination that is one address without its length. */
function cidr(text: string): Cidr {
  const found = parseCidr(text);
  if (found !== null) return found.cidr;
  const address = parseAddress(text);
  if (address === null) throw new Error(`${text} is neither a prefix nor an address`);
  return host(address.family, address.value);
}

function host(family: Family, value: bigint): Cidr {
  return { family, value, length: 8 * WIDTH[family] };
}

function inRanges(text: string, port: number | undefined): boolean {
  return text.split(',').some((range) => {
    const [first = 0, last = first] = range.split(':').map(Number);
    return port !== undefined && first <= port && port <= last;
  });
}

function inGroup(text: string, packet: Packet): boolean {
  const [value = 0, mask = 0] = text.split('/').map(Number);
  return (packet.interface.group & mask) >>> 0 === value;
}

function ofType(text: string, { type, code }: Packet): boolean {
  const [wanted, wantedCode] = text.split('/').map(Number);
  return type === wanted && (wantedCode === undefined || code === wantedCode);
}

/** The first byte of what follows the IPv4 header, or the first two. */
function ofBytes(text: string, { family, protocol, type = 0, code = 0 }: Packet): boolean {
  const [place, values = ''] = text.split('=');
  if (family === 4 && place === '0x6&0xff') return values.split(',').map(Number).includes(protocol);
  const isOne = place === '0x0>>0x16&0x3c@0x0>>0x18';
  if (family !== 4 || (!isOne && place !== '0x0>>0x16&0x3c@0x0>>0x10'))
    throw new Error(`unknown u32 ${text}`);
  return values
    .split(',')
    .map(Number)
    .includes(isOne ? type : type * 256 + code);
}

const SERVICE_PROTOCOLS: readonly number[] = [6, 17, 132];

function inSet(set: IpSet | undefined, directions: string): Test {
  if (set === undefined) throw new Error('a set that is not there');
  const { family, members } = set;
  if (set.type === 'hash:ip,port') {
    if (directions !== 'dst,dst') throw new Error(`${set.name} ${directions}`);
    return (packet) =>
      packet.family === family && SERVICE_PROTOCOLS.includes(packet.protocol) && hasService(set, packet);
  }
  const own = { family, ...members } as FamilyMembers;
  const both =
    family === 4
      ? { ...NO_MEMBERS, v4: members as typeof own }
      : { ...NO_MEMBERS, v6: members as typeof own };
  return (packet) =>
    packet.family === family &&
    hasMember(both, { family, value: directions === 'src' ? packet.src : packet.dst });
}

function hasService({ family, members }: IpSet, { dst, protocol, dstPort = 0 }: Packet): boolean {
  const key = Buffer.alloc(WIDTH[family] + 8);
  key.set(packAddress({ family, value: dst }));
  key.writeUInt8(protocol, key.length - 8);
  key.writeUInt16BE(dstPort, key.length - 4);
  for (let at = 0; at < members.singles.length; at += key.length) {
    if (key.equals(members.singles.subarray(at, at + key.length))) return true;
  }
  return false;
}
