import { ATOMIC_LIST, ATOMIC_OBJECT, MOST, presentCount } from './crd-keywords.ts';
import type { CelRule, CrdChecks, JsonSchema } from './json-schema.ts';

const port = (description: string): JsonSchema => ({
  type: 'integer',
  description,
  minimum: 1,
  maximum: 65535,
});
const byte = (description: string): JsonSchema => ({
  type: 'integer',
  description,
  minimum: 0,
  maximum: 255,
});

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
    protocol: {
      type: 'string',
      description: 'TCP if absent.',
      enum: ['TCP', 'UDP', 'SCTP'],
      default: 'TCP',
    },
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
    igmp: {
      ...ATOMIC_OBJECT,
      description: 'IGMP.',
      properties: {
        igmpType: byte('IGMP type, for example 17 for a membership query.'),
        groupAddress: {
          type: 'string',
          description: 'An IPv4 multicast address.',
          crd: { pattern: `^(22[4-9]|23[0-9])(\\.${OCTET}){3}$` },
        },
      },
    },
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
  ports: {
    ...ATOMIC_LIST,
    description: 'OR-ed, also with protocols.',
    items: PORT_SCHEMA,
    crd: { maxItems: MOST.ports },
  },
  protocols: {
    ...ATOMIC_LIST,
    description: 'OR-ed, also with ports.',
    items: PROTOCOL_SCHEMA,
    crd: { maxItems: MOST.ports },
  },
};
