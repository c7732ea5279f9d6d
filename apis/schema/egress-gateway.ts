import type { JsonSchema } from './json-schema.ts';
import { kindSchema } from './kind.ts';
import { ATOMIC_LIST, ATOMIC_OBJECT, GRANULAR_OBJECT } from './merge-type.ts';
import { labelSelector } from './selector.ts';

const probe: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Exactly one of icmp and tcp.',
  properties: {
    icmp: {
      ...ATOMIC_OBJECT,
      description: 'An echo request.',
      required: ['address'],
      properties: { address: { type: 'string', description: 'The address that answers.' } },
    },
    tcp: {
      ...ATOMIC_OBJECT,
      description: 'A TCP connection.',
      required: ['address', 'port'],
      properties: {
        address: { type: 'string', description: 'The address that answers.' },
        port: { type: 'integer', description: 'The port.', minimum: 1, maximum: 65535 },
      },
    },
    seconds: {
      type: 'integer',
      description: 'The time between two probes, 5 if absent.',
      minimum: 1,
      maximum: 3600,
    },
    failures: {
      type: 'integer',
      description: 'So many failures in a row count, 3 if absent.',
      minimum: 1,
      maximum: 100,
    },
  },
};

const spec: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'The nodes, and the addresses that pods get there.',
  required: ['nodeSelector'],
  properties: {
    nodeSelector: {
      ...labelSelector('The nodes that can be gateways.'),
      description: 'The nodes that can be gateways. All conditions must hold; at least one is needed.',
    },
    addresses: {
      ...ATOMIC_OBJECT,
      description: 'The addresses of this gateway; without pools the nodes use their own.',
      properties: {
        pools: {
          ...ATOMIC_LIST,
          description: 'Pools of addresses, both families mixed.',
          items: {
            ...ATOMIC_OBJECT,
            description: 'Ranges of addresses.',
            required: ['ranges'],
            properties: {
              ranges: {
                ...ATOMIC_LIST,
                description: 'IP, IP-IP or CIDR; an IPv4 CIDR without its network and broadcast address.',
                items: { type: 'string', maxLength: 91 },
              },
            },
          },
        },
      },
    },
    source: {
      type: 'string',
      description:
        'Floating, the default with pools: an address has one owner and moves. Node: each gateway uses its own address.',
      enum: ['Floating', 'Node'],
    },
    interface: {
      type: 'string',
      description: 'With source Node: the interface whose address is used; absent: that of the route.',
      maxLength: 15,
    },
    choice: {
      type: 'string',
      description:
        'Failover: one gateway at a time. Spread, with source Node: every ready gateway, by a hash of source and destination.',
      enum: ['Failover', 'Spread'],
      default: 'Failover',
    },
    announce: {
      type: 'string',
      description:
        'With source Floating. L2, the default: by ARP and neighbour advertisements. None: the network routes the addresses to the nodes.',
      enum: ['L2', 'None'],
    },
    probes: {
      ...ATOMIC_LIST,
      description: 'Destinations outside; a gateway for which all fail is not ready.',
      items: probe,
    },
    failover: {
      ...ATOMIC_OBJECT,
      description: 'With source Floating: when an address moves.',
      properties: {
        heartbeatMilliseconds: {
          type: 'integer',
          description: 'The time between two renewals of a lease.',
          minimum: 100,
          maximum: 60_000,
          default: 500,
        },
        leaseSeconds: {
          type: 'integer',
          description: 'The time without a renewal after which an address moves.',
          minimum: 1,
          maximum: 300,
          default: 2,
        },
        failback: {
          type: 'boolean',
          description: 'Whether an address moves back to the node that had it before.',
          default: false,
        },
      },
    },
    allowedNamespaces: labelSelector(
      'The namespaces whose EgressPolicies may use this gateway; absent: none.',
    ),
    default: {
      type: 'boolean',
      description: 'Whether this is the gateway of policies that name none; at most one is.',
      default: false,
    },
  },
};

export const EGRESS_GATEWAY_SCHEMA: JsonSchema = kindSchema(
  'Nodes by which pods leave the cluster, and the addresses that they get there.',
  spec,
);
