import { parseAddress } from '../../lib/net/address.ts';
import type { ApiGroup, NetworkPolicyPort, NetworkPolicyProtocol } from '../objects.ts';
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

/** Exactly one of the three fields. */
const PROTOCOL_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Exactly one of icmp, icmpv6 and igmp.',
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
  },
  crd: {
    cel: [
      {
        rule: `${presentCount(['icmp', 'icmpv6', 'igmp'])} == 1`,
        message: 'needs exactly one of icmp, icmpv6 and igmp; write one item for each (items are OR-ed)',
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
  const names = Object.keys(protocol).filter((name) => ['icmp', 'icmpv6', 'igmp'].includes(name));
  if (Object.keys(protocol).length === 0)
    found.error(path, 'is empty; it needs one of icmp, icmpv6, igmp (icmp: {} is all of it)');
  if (names.length > 1) {
    found.error(path, `has ${names.join(' and ')} in one item; write one item for each (items are OR-ed)`);
  }
  if ('icmpv6' in protocol && apiGroup !== 'nodewall.io') {
    found.error(
      [...path, 'icmpv6'],
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
