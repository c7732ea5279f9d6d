import fc from 'fast-check';
import { protocolNumbers } from '../oracle/flow.ts';
import type { PortManifest, ProtocolManifest } from '../oracle/manifest.ts';
import type { Aim } from './aim.ts';
import { fields, maybe, oneOf, weighted, withoutUndefined } from './choice.ts';
import { commonPorts, icmpTypes, icmpv6Types, igmpGroups, igmpTypes, protocolGroups } from './service.ts';

/**
 * The part of a flow above IP; `group` is a multicast destination, families those that the protocol
 * runs over.
 */
export interface Traffic {
  families: (4 | 6)[];
  protocol: string | number;
  srcPort?: number;
  dstPort?: number;
  icmpType?: number;
  icmpCode?: number;
  igmpType?: number;
  group?: string;
}

/** Queries alone: a reply or an error could belong to a connection that conntrack knows. */
const sendableTypes: Readonly<Record<'icmp' | 'icmpv6', number[]>> = {
  icmp: [8, 8, 8, 13, 17],
  icmpv6: [128, 128, 139],
};

/**
 * Neither TCP, UDP, SCTP, ICMP, ICMPv6 nor IGMP: IP-in-IP, IPv6, GRE, ESP, AH, OSPF, VRRP, DCCP,
 * UDP-Lite, reserved.
 */
const otherProtocols = [4, 41, 47, 50, 51, 89, 112, 33, 136, 255];

const numbers: Readonly<Record<string, number>> = {
  ...protocolNumbers,
  ipip: 4,
  gre: 47,
  ah: 51,
  ospf: 89,
  vrrp: 112,
};

/** Traffic that comes close to what the rule or failsafe entry names. */
export function trafficAt(aim: Aim, isSendable: boolean): fc.Arbitrary<Traffic> {
  const named = [
    ...aim.ports.map(trafficAtPort),
    ...aim.protocols.map((item) => trafficAtProtocol(item, isSendable)),
    // A kernel test sends none of them.
    ...(isSendable ? [] : (aim.numbers ?? [])).map((protocol) =>
      fc.constant<Traffic>({ families: [4, 6], protocol }),
    ),
  ];
  return named.length === 0 ? anyTraffic(isSendable) : oneOf(named).chain((arbitrary) => arbitrary);
}

/** Traffic over the usual ports and types, other protocols by number now and then. */
export function anyTraffic(isSendable: boolean): fc.Arbitrary<Traffic> {
  const transport = fc.constantFrom('TCP', 'UDP', 'SCTP').chain((protocol) => trafficAtPort({ protocol }));
  const icmp = trafficAtProtocol({ icmp: {} }, isSendable);
  if (isSendable) return weighted([6, transport], [2, icmp]);
  const other = oneOf(otherProtocols).chain((protocol) => wholeTraffic(protocol));
  const igmp = trafficAtProtocol({ igmp: {} }, false);
  return weighted([12, transport], [4, icmp], [1, igmp], [2, other]);
}

/** The protocol by its number, as a flow may say it. */
export function byNumber(traffic: Traffic): Traffic {
  return { ...traffic, protocol: protocolNumbers[traffic.protocol] ?? traffic.protocol };
}

function trafficAtPort(port: PortManifest): fc.Arbitrary<Traffic> {
  const protocol = (port.protocol ?? 'TCP').toLowerCase();
  const ephemeral = fc.integer({ min: 32768, max: 60999 });
  return fc
    .record({
      srcPort: port.sourcePort === undefined ? ephemeral : atRange(port.sourcePort, port.sourceEndPort),
      dstPort: port.port === undefined ? atRange() : atRange(port.port, port.endPort),
    })
    .map((ports) => ({ families: [4, 6], protocol, ...ports }));
}

function trafficAtProtocol(item: ProtocolManifest, isSendable: boolean): fc.Arbitrary<Traffic> {
  if (item.icmpv6 !== undefined) return icmpTraffic('icmpv6', item.icmpv6 ?? {}, isSendable);
  if (item.protocol !== undefined) {
    const number =
      typeof item.protocol === 'number' ? item.protocol : (numbers[item.protocol.toLowerCase()] ?? 255);
    const name = Object.keys(protocolNumbers).find((one) => protocolNumbers[one] === number);
    if (name === undefined) return wholeTraffic(number, isSendable ? null : item.groupAddress);
    if (['tcp', 'udp', 'sctp'].includes(name)) return trafficAtPort({ protocol: name.toUpperCase() });
    return trafficAtProtocol({ [name]: {} }, isSendable);
  }
  if (item.igmp !== undefined && !isSendable) return igmpTraffic(item.igmp ?? {});
  const asked = item.icmp ?? {};
  const icmp = icmpTraffic('icmp', asked, isSendable);
  return weighted([2, icmp], [1, icmpTraffic('icmpv6', asked, isSendable)]);
}

/**
 * As a rule to the group, else to another one or to none; `null`: always to none. Some are of
 * another protocol.
 */
function wholeTraffic(number: number, groupAddress?: string | null): fc.Arbitrary<Traffic> {
  const protocol = weighted([8, fc.constant(number)], [1, oneOf(otherProtocols)]);
  const none = fc.constant(undefined);
  const other = oneOf(protocolGroups);
  const group: fc.Arbitrary<string | undefined> =
    groupAddress === null
      ? none
      : groupAddress === undefined
        ? weighted<string | undefined>([6, none], [1, other])
        : weighted<string | undefined>([6, fc.constant(groupAddress)], [1, other], [2, none]);
  return fc.record({ protocol, group }).map((drawn) => {
    // In IPv6 it is an extension header.
    const families: (4 | 6)[] = drawn.protocol === 0 ? [4] : [4, 6];
    const to = drawn.group?.includes(':') ? 6 : 4;
    if (drawn.group === undefined || !families.includes(to)) return { families, protocol: drawn.protocol };
    return { families: [to], protocol: drawn.protocol, group: drawn.group };
  });
}

function icmpTraffic(
  protocol: 'icmp' | 'icmpv6',
  asked: { icmpType?: number; icmpCode?: number },
  isSendable: boolean,
): fc.Arbitrary<Traffic> {
  const usual = isSendable ? sendableTypes[protocol] : protocol === 'icmp' ? icmpTypes : icmpv6Types;
  const isUsable = asked.icmpType !== undefined && (!isSendable || usual.includes(asked.icmpType));
  const type = isUsable ? weighted([4, fc.constant(asked.icmpType ?? 0)], [1, oneOf(usual)]) : oneOf(usual);
  const code = fc.constantFrom(asked.icmpCode ?? 0, asked.icmpCode ?? 0, 0, 1, 2);
  return fc.record({ icmpType: type, icmpCode: code }).map((drawn) => {
    return { families: [protocol === 'icmp' ? 4 : 6], protocol, ...drawn };
  });
}

function igmpTraffic(asked: { igmpType?: number; groupAddress?: string }): fc.Arbitrary<Traffic> {
  const known = { igmpType: asked.igmpType ?? 0x13, group: asked.groupAddress ?? '224.0.0.22' };
  const drawn = fields<Pick<Traffic, 'igmpType' | 'group'>>({
    igmpType: weighted<number | undefined>(
      [3, fc.constant(known.igmpType)],
      [1, maybe(80, oneOf(igmpTypes))],
    ),
    group: weighted<string | undefined>([3, fc.constant(known.group)], [1, maybe(80, oneOf(igmpGroups))]),
  });
  return drawn.map((rest) => withoutUndefined({ families: [4], protocol: 'igmp', ...rest }) as Traffic);
}

/** A port at the edges of the range, just outside it, or inside. */
function atRange(from?: number, to?: number): fc.Arbitrary<number> {
  if (from === undefined) return oneOf(commonPorts);
  const last = to ?? from;
  const outside = fc.constantFrom(from - 1, last + 1).map((port) => Math.min(65535, Math.max(1, port)));
  return weighted([4, fc.constantFrom(from, last)], [2, fc.integer({ min: from, max: last })], [1, outside]);
}
