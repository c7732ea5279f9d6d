import { parseAddress } from '../../lib/net/address.ts';
import { IP_PROTOCOLS, namedProtocolNumber, PROTOCOL_WORDS } from '../ip-protocols.ts';
import type { ApiGroup, NetworkPolicyPort, NetworkPolicyProtocol, Rule } from '../objects.ts';
import { ATOMIC_OBJECT, MOST, presentCount } from '../schema/crd-parts.ts';
import { choiceField, listField, objectField, textField, wholeField } from '../schema/fields.ts';
import {
  asFields,
  type CelRule,
  type CrdChecks,
  type FieldMap,
  type JsonSchema,
} from '../schema/json-schema.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

const port = (description: string): JsonSchema => wholeField(description, [1, 65535]);
const byte = (description: string): JsonSchema => wholeField(description, [0, 255]);

const range = (first: string, last: string): CelRule => ({
  rule: `!has(self.${last}) || (has(self.${first}) && self.${last} >= self.${first})`,
  message: `${last} needs ${first}, and must not be below it`,
});

const OCTET = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const CODE: CrdChecks = {
  cel: [{ rule: '!has(self.icmpCode) || has(self.icmpType)', message: 'icmpCode needs icmpType' }],
};

const PORT_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'A protocol with a range of ports; without port, every port.',
  properties: {
    protocol: choiceField('TCP if absent.', ['TCP', 'UDP', 'SCTP'], 'TCP'),
    port: port('Destination port, 1 to 65535. Named ports are not supported for Nodes.'),
    endPort: port('Last destination port of a range that starts with port.'),
    sourcePort: port('Source port.'),
    sourceEndPort: port('Last source port of a range that starts with sourcePort.'),
  },
  crd: { cel: [range('port', 'endPort'), range('sourcePort', 'sourceEndPort')] },
};

const KINDS = ['icmp', 'icmpv6', 'igmp', 'protocol'] as const;
/** Fields of nodewall.io alone. */
const OWN_FIELDS = ['icmpv6', 'protocol', 'groupAddress'] as const;

/** Protocols that rules divide by something else than the destination. */
const DIVIDED = ['icmp', 'icmpv6', 'tcp', 'udp', 'sctp'] as const;

const DIVIDED_WORDS = PROTOCOL_WORDS.filter((word) =>
  DIVIDED.some((name) => IP_PROTOCOLS[name] === namedProtocolNumber(word)),
);

/** Exactly one of KINDS. */
const PROTOCOL_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Exactly one of icmp, icmpv6, igmp and protocol.',
  properties: {
    icmp: {
      ...ATOMIC_OBJECT,
      description: 'Without a type: all of ICMP and ICMPv6. With one: ICMP for IPv4 alone.',
      properties: { icmpType: byte('ICMP type.'), icmpCode: byte('Only beside icmpType.') },
      crd: CODE,
    },
    icmpv6: {
      ...ATOMIC_OBJECT,
      description: 'ICMPv6.',
      properties: { icmpType: byte('ICMPv6 type.'), icmpCode: byte('Only beside icmpType.') },
      crd: CODE,
    },
    igmp: objectField('IGMP.', [], {
      igmpType: byte('IGMP type, for example 17 for a membership query.'),
      groupAddress: textField('An IPv4 multicast address.', {
        crd: { pattern: `^(22[4-9]|23[0-9])(\\.${OCTET}){3}$` },
      }),
    }),
    protocol: {
      description:
        'The number of an IP protocol, 0 to 255, or its name, for example vrrp, ospf, gre, esp, ah.' +
        ' All of the protocol, in both families.',
      'x-kubernetes-int-or-string': true,
      crd: {
        minimum: 0,
        maximum: 255,
        maxLength: 32,
        pattern: `^(?i:${PROTOCOL_WORDS.join('|').replaceAll('.', '[.]')})$`,
      },
    },
    groupAddress: textField(
      'Beside protocol: only to this multicast address, of IPv4 or IPv6. Not for protocols with ports or ICMP types.',
      {
        crd: {
          maxLength: 45,
          pattern: `^((22[4-9]|23[0-9])(\\.${OCTET}){3}|[fF][fF][0-9a-fA-F]{2}:[0-9a-fA-F:.]+)$`,
        },
      },
    ),
  },
  crd: {
    cel: [
      {
        rule: `${presentCount([...KINDS])} == 1`,
        message:
          'needs exactly one of icmp, icmpv6, igmp and protocol; write one item for each (items are OR-ed)',
      },
      {
        rule: '!has(self.groupAddress) || has(self.protocol)',
        message: 'groupAddress needs protocol, beside which it stands',
      },
      {
        rule:
          '!has(self.groupAddress) || !has(self.protocol) || (type(self.protocol) == int ' +
          `? !(self.protocol in [${DIVIDED.map((name) => IP_PROTOCOLS[name]).join(', ')}]) ` +
          `: !(self.protocol.lowerAscii() in [${DIVIDED_WORDS.map((name) => `'${name}'`).join(', ')}]))`,
        message: 'groupAddress is not for protocols whose packets have ports or ICMP types',
      },
      {
        rule:
          '!has(self.groupAddress) || !has(self.protocol) || !self.groupAddress.contains(":") || ' +
          '(type(self.protocol) == int ? self.protocol != 2 : self.protocol.lowerAscii() != "igmp")',
        message: 'groupAddress of IGMP is an IPv4 multicast address',
      },
    ],
  },
};

/** The services of a rule. */
export const SERVICE_FIELDS: Readonly<Record<'ports' | 'protocols', JsonSchema>> = {
  ports: listField('OR-ed, also with protocols.', PORT_SCHEMA, { maxItems: MOST.ports }),
  protocols: listField('OR-ed, also with ports.', PROTOCOL_SCHEMA, { maxItems: MOST.ports }),
};

const RANGES = [
  ['port', 'endPort'],
  ['sourcePort', 'sourceEndPort'],
] as const;

export function checkPort(raw: unknown, path: FieldPath, found: Findings): void {
  const port = asFields(raw);
  if (port === null) return;
  for (const [first, last] of RANGES) {
    if (!(last in port)) continue;
    if (!(first in port)) found.error([...path, last], `needs ${first}, the start of the range`);
    else if (isBelow(port[last], port[first])) {
      const range = `${first} ${port[first]}`;
      found.error(
        [...path, last],
        `${port[last]} is below ${range}; the range must end where it starts or later`,
      );
    }
  }
}

function isBelow(last: unknown, first: unknown): boolean {
  return typeof last === 'number' && typeof first === 'number' && last < first;
}

export function checkProtocol(raw: unknown, path: FieldPath, apiGroup: ApiGroup, found: Findings): void {
  const protocol = asFields(raw);
  if (protocol === null) return;
  const names = KINDS.filter((name) => name in protocol);
  if (Object.keys(protocol).length === 0)
    found.error(path, 'is empty; it needs one of icmp, icmpv6, igmp, protocol (icmp: {} is all of it)');
  if (names.length > 1) {
    found.error(path, `has ${names.join(' and ')} in one item; write one item for each (items are OR-ed)`);
  }
  for (const field of apiGroup === 'nodewall.io' ? [] : OWN_FIELDS) {
    if (field in protocol)
      found.error(
        [...path, field],
        `unknown field in ${apiGroup}; it belongs to nodewall.io/v1alpha1 policies`,
      );
  }
  for (const name of ['icmp', 'icmpv6']) {
    const fields = asFields(protocol[name]);
    if (fields !== null && 'icmpCode' in fields && !('icmpType' in fields)) {
      found.error([...path, name, 'icmpCode'], 'needs icmpType');
    }
  }
  checkGroupAddress(asFields(protocol.igmp), [...path, 'igmp', 'groupAddress'], found);
  checkNumbered(protocol, path, found);
}

/** `protocol`, and `groupAddress` beside it. */
function checkNumbered({ protocol, groupAddress: group }: FieldMap, path: FieldPath, found: Findings): void {
  const problem = protocolProblem(protocol);
  if (problem !== null) found.error([...path, 'protocol'], problem);
  if (group === undefined) return;
  const place = [...path, 'groupAddress'];
  if (protocol === undefined) found.error(place, 'needs protocol, beside which it stands');
  if (typeof group !== 'string' || problem !== null) return;
  const number = typeof protocol === 'string' ? namedProtocolNumber(protocol) : protocol;
  if (DIVIDED.some((name) => IP_PROTOCOLS[name] === number))
    found.error(place, `is not for ${show(protocol)}, whose packets have ports or types; leave it out`);
  else if (number === IP_PROTOCOLS.igmp) checkGroupAddress({ groupAddress: group }, place, found);
  else if (!isMulticast(group))
    found.error(
      place,
      `${show(group)} is not a multicast address (224.0.0.0 to 239.255.255.255, or in ff00::/8)`,
    );
}

function protocolProblem(protocol: unknown): string | null {
  if (typeof protocol === 'number' && Number.isInteger(protocol))
    return protocol >= 0 && protocol <= 255 ? null : `must be 0 to 255, or a name, not ${protocol}`;
  if (typeof protocol !== 'string' || namedProtocolNumber(protocol) !== undefined) return null;
  if (/^\d+$/.test(protocol)) return `${show(protocol)} is text, which would be a name; remove the quotes`;
  return `${show(protocol)} is not a name; write 0 to 255, or one of ${Object.keys(IP_PROTOCOLS).join(', ')}`;
}

function isMulticast(text: string): boolean {
  const address = parseAddress(text);
  if (address === null) return false;
  return address.family === 4 ? address.value >> 28n === 0xen : address.value >> 120n === 0xffn;
}

function checkGroupAddress(igmp: FieldMap | null, path: FieldPath, found: Findings): void {
  const text = igmp?.groupAddress;
  if (typeof text !== 'string') return;
  const address = parseAddress(text);
  if (address?.family === 4 && address.value >> 28n === 0xen) return;
  found.error(path, `${show(text)} is not an IPv4 multicast address (224.0.0.0 to 239.255.255.255)`);
}

/** Converts a port item that passed the checks; the schema admits no other fields. */
export function toPort(port: NetworkPolicyPort): NetworkPolicyPort {
  return { ...port };
}

export function toProtocol(protocol: NetworkPolicyProtocol): NetworkPolicyProtocol {
  return structuredClone(protocol);
}

const WITH_PORTS = { 6: 'TCP', 17: 'UDP', 132: 'SCTP' } as const;

/** The ports that a rule names; of a protocol with ports among `protocols` that is every port. */
export function namedPorts({
  ports = [],
  protocols = [],
}: Pick<Rule, 'ports' | 'protocols'>): readonly NetworkPolicyPort[] {
  const whole = protocols.flatMap(({ protocol }) => {
    const number = protocol === undefined ? undefined : namedProtocolNumber(protocol);
    return number === 6 || number === 17 || number === 132 ? { protocol: WITH_PORTS[number] } : [];
  });
  return [...ports, ...whole];
}
