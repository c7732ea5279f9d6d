import { ipProtocolNumber } from '../../../apis/flow.ts';
import { packLabels, packMachine16, packMachine32 } from '../../../lib/net/bytes.ts';
import { NO_USER } from '../../render/nft-text.ts';
import type { L4Protocol, Match, MatchOf } from '../../render/ruleset.ts';
import {
  addAddressMatch,
  addIcmp,
  addIgmp,
  addNotIn,
  addNotInSet,
  addOriginalPorts,
  addPastDeadline,
  addPorts,
  addPortTuples,
  addService,
} from './encode-header-match.ts';
import { DATA_TYPE, packPort, TYPE_OF_PROTOCOL, typeOf } from './encode-set.ts';
import {
  addAnonymous,
  addCompare,
  addEqual,
  addFamily,
  addField,
  addFlags,
  addMaskedMark,
  addProtocol,
  bitwise,
  meta,
  PORT_OFFSET,
  payload,
  REGISTER,
  type RuleEncoding,
  requireProtocol,
} from './rule-encoding.ts';

/** Adds the expressions of a match to the rule. */
export function addMatch(encoding: RuleEncoding, match: Match): void {
  const add = MATCHES[match.match] as (to: RuleEncoding, it: Match) => void;
  add(encoding, match);
}

type Encoders = {
  readonly [Kind in Match['match']]: (encoding: RuleEncoding, match: MatchOf<Kind>) => void;
};

const MATCHES: Encoders = {
  ctEstablished: (encoding) => addFlags(encoding, 'state', CT_ESTABLISHED | CT_RELATED),
  ctUntracked: (encoding) => addFlags(encoding, 'state', CT_UNTRACKED),
  ctNew: (encoding) => addFlags(encoding, 'state', CT_NEW),
  ctDirection: (encoding, { direction }) => addDirection(encoding, direction),
  ctNoSnat: (encoding) => addFlags(encoding, 'status', CT_SNAT, true),
  mark: addMark,
  ctLabel: addLabel,
  notInSet: addNotInSet,
  pastDeadline: addPastDeadline,
  noRouteBack: (encoding) => addEqual(encoding, FIB_BACK, packMachine32(0)),
  fromSocket: (encoding) => addEqual(encoding, meta('skuid'), packMachine32(NO_USER), true),
  tcpSyn: addSyn,
  tcpNotFirst: addNotFirst,
  loopback: (encoding, { field }) => addEqual(encoding, meta(field), packMachine32(LOOPBACK)),
  interfaceGroup: addGroups,
  ctDnat: (encoding) => addFlags(encoding, 'status', CT_DNAT),
  ctConfirmed: (encoding) => addFlags(encoding, 'status', CT_CONFIRMED),
  dnsAnswer: addDnsAnswer,
  limit: addLimit,
  nfproto: (encoding, { family }) => addFamily(encoding, family),
  l4proto: (encoding, { protocols }) => addProtocols(encoding, protocols),
  address: addAddressMatch,
  port: addPorts,
  originalPort: addOriginalPorts,
  serviceTuple: addService,
  notIn: addNotIn,
  local: (encoding, { field }) => addEqual(encoding, FIB_TYPE[field], packMachine32(RTN_LOCAL)),
  vrf: (encoding) => addEqual(encoding, meta('iifkind'), VRF),
  toVrf(encoding, { device }) {
    addEqual(encoding, meta('oifkind'), VRF);
    addEqual(encoding, meta('oifname'), interfaceName(device));
  },
  toMany: (encoding) => addEqual(encoding, meta('pkttype'), Uint8Array.of(PACKET_HOST), true),
  notEther: (encoding) => addEqual(encoding, meta('iiftype'), ETHER, true),
  etherHeader: (encoding) => addEqual(encoding, payload('link', 12, 2), Uint8Array.of(0, 0), true),
  portTuple: addPortTuples,
  icmp: addIcmp,
  igmp: addIgmp,
};

/** Bits of linux/netfilter/nf_conntrack_common.h. */
const CT_ESTABLISHED = 2;
const CT_RELATED = 4;
const CT_CONFIRMED = 8;
const CT_NEW = 8;
const CT_UNTRACKED = 64;
const CT_SNAT = 16;
const CT_DNAT = 32;
/** enum ip_conntrack_dir of linux/netfilter/nf_conntrack_tuple_common.h. */
const CT_DIRECTION = { original: 0, reply: 1 } as const;
/** RTN_LOCAL of linux/rtnetlink.h. */
const RTN_LOCAL = 2;
const FIB_TYPE = {
  saddr: { kind: 'fib', result: 'type', flags: ['saddr'], register: REGISTER },
  daddr: { kind: 'fib', result: 'type', flags: ['daddr'], register: REGISTER },
} as const;
const FIB_BACK = {
  kind: 'fib',
  result: 'oif',
  flags: ['saddr', 'iif', 'present'],
  register: REGISTER,
} as const;
/** The byte of the TCP header with the flags, and SYN in it. */
const TCP_FLAGS = payload('transport', 13, 1);
const SYN = Uint8Array.of(2);
/** From linux/if_packet.h. */
const PACKET_HOST = 0;
/** ARPHRD_ETHER of linux/if_arp.h, 16 bits. */
const ETHER = packMachine16(1);
const VRF = interfaceName('vrf');
/** LOOPBACK_IFINDEX in the kernel's include/net/flow.h, the same in every network namespace. */
const LOOPBACK = 1;
const TYPE_OF_GROUP = { iifgroup: typeOf.meta(21), oifgroup: typeOf.meta(22) } as const;

/** Padded to IFNAMSIZ, as the kernel compares it. */
function interfaceName(name: string): Uint8Array {
  return Buffer.from(name.padEnd(16, '\0'));
}

function addDnsAnswer(encoding: RuleEncoding): void {
  requireProtocol(encoding, 'udp');
  addField(encoding, PORT_OFFSET.sport, packPort(53));
  addFlags(encoding, 'state', CT_ESTABLISHED);
  addDirection(encoding, 'reply');
}

function addDirection(encoding: RuleEncoding, direction: MatchOf<'ctDirection'>['direction']): void {
  const load = { kind: 'ct', key: 'direction', register: REGISTER } as const;
  addEqual(encoding, load, Uint8Array.of(CT_DIRECTION[direction]));
}

function addMark(encoding: RuleEncoding, { of, mask, value, negated }: MatchOf<'mark'>): void {
  addMaskedMark(encoding, of, mask);
  addCompare(encoding, packMachine32(value), negated);
}

function addLabel(encoding: RuleEncoding, { bits, negated }: MatchOf<'ctLabel'>): void {
  const none = packLabels([]);
  encoding.expressions.push({ kind: 'ct', key: 'label', register: REGISTER }, bitwise(packLabels(bits)));
  addCompare(encoding, none, !negated);
}

function addSyn(encoding: RuleEncoding): void {
  requireProtocol(encoding, 'tcp');
  encoding.expressions.push(TCP_FLAGS, bitwise(SYN));
  addCompare(encoding, Uint8Array.of(0), true);
}

function addNotFirst(encoding: RuleEncoding): void {
  requireProtocol(encoding, 'tcp');
  encoding.expressions.push(TCP_FLAGS, bitwise(Uint8Array.of(FIN_SYN_RST_ACK)));
  addCompare(encoding, SYN, true);
}

/** As iptables' --syn has them. */
const FIN_SYN_RST_ACK = 0x17;

function addLimit({ expressions }: RuleEncoding, { perSecond, burst }: MatchOf<'limit'>): void {
  expressions.push({ kind: 'limit', rate: perSecond, seconds: 1, burst });
}

function addGroups(encoding: RuleEncoding, { field, groups, negated }: MatchOf<'interfaceGroup'>): void {
  const values = groups.map(packMachine32);
  const [only] = values;
  if (only !== undefined && values.length === 1) {
    addEqual(encoding, meta(field), only, negated);
    return;
  }
  const key = {
    type: DATA_TYPE.linkGroup,
    length: 4,
    byteOrder: 'machine',
    typeOf: TYPE_OF_GROUP[field],
  } as const;
  encoding.expressions.push(meta(field));
  addAnonymous(encoding, key, { shape: 'keys', keys: Buffer.concat(values) }, negated);
}

function addProtocols(encoding: RuleEncoding, protocols: readonly L4Protocol[]): void {
  const [only] = protocols;
  if (only !== undefined && protocols.length === 1) {
    addProtocol(encoding, only);
    return;
  }
  const key = {
    type: DATA_TYPE.protocol,
    length: 1,
    byteOrder: 'machine',
    typeOf: TYPE_OF_PROTOCOL,
  } as const;
  encoding.expressions.push(meta('l4proto'));
  const keys = Uint8Array.from(protocols, ipProtocolNumber);
  addAnonymous(encoding, key, { shape: 'keys', keys });
  encoding.protocol = 'several';
}
