import type { JsonSchema } from './json-schema.ts';
import { ATOMIC_OBJECT } from './merge-type.ts';

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

export const PORT_SCHEMA: JsonSchema = {
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
};

/** Exactly one of the three fields. */
export const PROTOCOL_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Exactly one of icmp, icmpv6 and igmp.',
  properties: {
    icmp: {
      ...ATOMIC_OBJECT,
      description: 'Without a type: all of ICMP and ICMPv6. With one: ICMP for IPv4 alone.',
      properties: { icmpType: byte('ICMP type.'), icmpCode: byte('Only beside icmpType.') },
    },
    icmpv6: {
      ...ATOMIC_OBJECT,
      description: 'ICMPv6.',
      properties: { icmpType: byte('ICMPv6 type.'), icmpCode: byte('Only beside icmpType.') },
    },
    igmp: {
      ...ATOMIC_OBJECT,
      description: 'IGMP.',
      properties: {
        igmpType: byte('IGMP type, for example 17 for a membership query.'),
        groupAddress: { type: 'string', description: 'An IPv4 multicast address.' },
      },
    },
  },
};
