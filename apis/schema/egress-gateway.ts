import { labelSelector } from '../label-selector.ts';
import { ATOMIC_OBJECT, GRANULAR_OBJECT, kindSchema } from './crd-parts.ts';
import { choiceField, flagField, listField, objectField, textField, wholeField } from './fields.ts';
import type { CelRule, JsonSchema } from './json-schema.ts';

/** Both ends of IP-IP would cost more than the API server allows; their form is in the pattern. */
const RANGE: CelRule = {
  rule: "isIP(self) || isCIDR(self) || self.contains('-')",
  message: 'is not a range of addresses: IP, IP-IP or CIDR',
};

/** A gateway's `failover`, where it says nothing. */
export const DEFAULT_FAILOVER = { heartbeatMilliseconds: 500, leaseSeconds: 2, failback: false } as const;

const HAS_POOLS = 'has(self.addresses) && has(self.addresses.pools) && size(self.addresses.pools) > 0';
const IS_NODE = `has(self.source) ? self.source == "Node" : !(${HAS_POOLS})`;

const address: JsonSchema = textField('The address that answers.', {
  crd: { maxLength: 45, cel: [{ rule: 'isIP(self)', message: 'is not an IP address' }] },
});

const probe: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Exactly one of icmp and tcp.',
  properties: {
    icmp: objectField('An echo request.', ['address'], { address }),
    tcp: objectField('A TCP connection.', ['address', 'port'], {
      address,
      port: wholeField('The port.', [1, 65535]),
    }),
    seconds: wholeField('The time between two probes, 5 if absent.', [1, 3600]),
    failures: wholeField('So many failures in a row count, 3 if absent.', [1, 100]),
  },
  crd: { cel: [{ rule: 'has(self.icmp) != has(self.tcp)', message: 'needs exactly one of icmp and tcp' }] },
};

const spec: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'The nodes, and the addresses that pods get there.',
  required: ['nodeSelector'],
  properties: {
    nodeSelector: {
      ...labelSelector('The nodes that can be gateways.'),
      description: 'The nodes that can be gateways. All conditions must hold; at least one is needed.',
      crd: {
        cel: [
          {
            rule: '(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)',
            message:
              'is empty and would select every Node; name the labels of the nodes that are to be gateways',
          },
        ],
      },
    },
    addresses: objectField('The addresses of this gateway; without pools the nodes use their own.', [], {
      pools: listField(
        'Pools of addresses, both families mixed.',
        objectField('Ranges of addresses.', ['ranges'], {
          ranges: listField(
            'IP, IP-IP or CIDR; an IPv4 CIDR without its network and broadcast address.',
            {
              type: 'string',
              maxLength: 91,
              crd: { pattern: '^[0-9A-Fa-f.:]+([-/][0-9A-Fa-f.:]+)?$', cel: [RANGE] },
            },
            { minItems: 1, maxItems: 64 },
          ),
        }),
        { maxItems: 32 },
      ),
    }),
    source: choiceField(
      'Floating, the default with pools: an address has one owner and moves. Node: each gateway uses its own address.',
      ['Floating', 'Node'],
    ),
    interface: textField(
      'With source Node: the interface whose address is used; absent: that of the route.',
      { maxLength: 15, crd: { pattern: '^[^\\s/:]{1,15}$' } },
    ),
    choice: choiceField(
      'Failover: one gateway at a time. Spread, with source Node: every ready gateway, by a hash of source and destination.',
      ['Failover', 'Spread'],
      'Failover',
    ),
    announce: choiceField(
      'With source Floating. L2, the default: by ARP and neighbour advertisements. None: the network routes the addresses to the nodes.',
      ['L2', 'None'],
    ),
    probes: listField('Destinations outside; a gateway for which all fail is not ready.', probe, {
      maxItems: 8,
    }),
    failover: {
      ...ATOMIC_OBJECT,
      description: 'With source Floating: when an address moves.',
      properties: {
        heartbeatMilliseconds: wholeField(
          'The time between two renewals of a lease.',
          [100, 60_000],
          DEFAULT_FAILOVER.heartbeatMilliseconds,
        ),
        leaseSeconds: wholeField(
          'The time without a renewal after which an address moves.',
          [1, 300],
          DEFAULT_FAILOVER.leaseSeconds,
        ),
        failback: flagField(
          'Whether an address moves back to the node that had it before.',
          DEFAULT_FAILOVER.failback,
        ),
      },
      crd: {
        cel: [
          {
            rule:
              `(has(self.leaseSeconds) ? self.leaseSeconds : ${DEFAULT_FAILOVER.leaseSeconds}) * 1000 >= ` +
              `2 * (has(self.heartbeatMilliseconds) ? self.heartbeatMilliseconds : ${DEFAULT_FAILOVER.heartbeatMilliseconds})`,
            message: 'a lease is shorter than two heartbeats; one lost heartbeat would move the addresses',
          },
        ],
      },
    },
    allowedNamespaces: labelSelector(
      'The namespaces whose EgressPolicies may use this gateway; absent: none.',
    ),
    default: flagField('Whether this is the gateway of policies that name none; at most one is.', false),
  },
  crd: {
    cel: [
      {
        rule: `!has(self.source) || self.source != "Node" || !(${HAS_POOLS})`,
        message:
          "source Node uses the nodes' own addresses, and those of spec.addresses never; remove one of the two",
      },
      {
        rule: `!has(self.source) || self.source != "Floating" || (${HAS_POOLS})`,
        message: 'source Floating needs addresses; give spec.addresses.pools, or source: Node',
      },
      {
        rule: `!has(self.choice) || self.choice != "Spread" || (${IS_NODE})`,
        message:
          'choice Spread needs source: Node, because an address of a pool is on one node at a time; use Failover',
      },
      {
        rule: `!has(self.interface) || (${IS_NODE})`,
        message: 'interface is only allowed with source: Node',
      },
    ],
  },
};

export const EGRESS_GATEWAY_SCHEMA: JsonSchema = kindSchema(
  'Nodes by which pods leave the cluster, and the addresses that they get there.',
  spec,
);
