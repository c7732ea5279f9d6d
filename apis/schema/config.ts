import { DATAPLANE_NAMES, EXEMPTIONS } from '../config.ts';
import { ROLLOUT_FIELDS } from '../rollout.ts';
import type { JsonSchema } from './json-schema.ts';

const port: JsonSchema = { type: 'integer', minimum: 1, maximum: 65535 };

const whole = (minimum: number, maximum: number, description: string): JsonSchema => ({
  type: 'integer',
  minimum,
  maximum,
  description,
});
/** A number of seconds, up to 7 days. */
const seconds = (description: string): JsonSchema => whole(1, 604_800, `${description} Seconds.`);
const leaseTime = (description: string): JsonSchema => whole(1, 3600, description);
const nflogGroup = whole(1, 65_535, 'NFLOG group; names and log need different ones.');

const failsafeList: JsonSchema = {
  type: 'array',
  description: 'Replaces the default list of its direction; [] turns it off.',
  items: {
    type: 'object',
    required: ['peers'],
    properties: {
      protocol: { type: 'string', enum: ['TCP', 'UDP', 'SCTP'], default: 'TCP' },
      port,
      endPort: port,
      peers: {
        description: 'nodes, controllers, any, or a list of CIDRs.',
        'x-kubernetes-preserve-unknown-fields': true,
      },
    },
  },
};

/** The agent's configuration file. */
export const CONFIG_SCHEMA: JsonSchema = {
  type: 'object',
  properties: {
    exemptions: {
      type: 'object',
      description: 'Traffic that is accepted before any policy; false turns one off.',
      properties: Object.fromEntries(EXEMPTIONS.map((name) => [name, { type: 'boolean', default: true }])),
    },
    antiSpoofing: {
      type: 'boolean',
      default: true,
      description: "Drop pods' packets with a Node's address, and own addresses from the network.",
    },
    interfaceGroups: {
      type: 'object',
      description: 'Names of link groups: NAME: NUMBER or NAME: {group: NUMBER, match: [...]}.',
      additionalProperties: { 'x-kubernetes-preserve-unknown-fields': true },
    },
    interfaceGroupFile: {
      type: 'string',
      description: 'The file with names of link groups for iproute2 and nft; "" leaves it alone.',
    },
    masquerade: {
      type: 'object',
      properties: {
        enabled: { type: 'boolean', default: false },
        except: { type: 'array', description: 'CIDRs.', items: { type: 'string' } },
      },
    },
    names: {
      type: 'object',
      description: 'How fqdn peers are resolved.',
      properties: {
        servers: { type: 'array', description: 'DNS servers.', items: { type: 'string' } },
        minimumTTL: seconds('The shortest time between two queries for a name.'),
        maximumTTL: seconds('The longest time between two queries for a name.'),
        keep: seconds('The time that an address is kept after it was last in an answer.'),
        stale: seconds('The time that the last addresses of a name are kept when it no longer resolves.'),
        learn: { type: 'boolean', default: true, description: 'Read the DNS answers that the node gets.' },
        learnFrom: {
          type: 'array',
          description:
            "CIDRs of the DNS servers whose answers are read; an empty list is the node's own servers.",
          items: { type: 'string' },
        },
        group: nflogGroup,
      },
    },
    log: {
      type: 'object',
      description: 'The flow log.',
      properties: {
        file: { type: 'string', description: 'A path, or stdout.' },
        maxBytes: whole(65_536, 2 ** 40, 'The size at which a file is rotated (bytes).'),
        maxFiles: whole(1, 100, 'The number of files that are kept.'),
        rate: whole(0, 100_000, 'The most records a second of one rule; 0 is no limit.'),
        burst: whole(1, 1_000_000, 'Records of one rule before the rate limit applies.'),
        group: nflogGroup,
        egressConnections: {
          type: 'boolean',
          default: false,
          description: 'Record each connection that leaves by this node as an egress gateway.',
        },
      },
    },
    flowInventory: {
      type: 'object',
      description: 'The kinds of flows of the last 7 days.',
      properties: {
        enabled: {
          type: 'boolean',
          default: true,
          description: 'Keep it, in memory and in the state directory.',
        },
      },
    },
    failsafe: {
      type: 'object',
      properties: {
        ingress: failsafeList,
        egress: failsafeList,
        loadBalancers: {
          type: 'array',
          description: 'CIDRs from which load balancers reach the API server on its nodes.',
          items: { type: 'string' },
        },
        kubeletKubeconfig: {
          type: 'string',
          description: "The kubelet's kubeconfig; '' is the usual places.",
        },
      },
    },
    nodeCIDRs: {
      type: 'array',
      description: 'CIDRs; addresses of Nodes outside of them do not count. An empty list: all count.',
      items: { type: 'string' },
    },
    endpointsWithoutPods: {
      type: 'array',
      description: 'Services (NAMESPACE/NAME) whose endpoints toServices has though no pod has them.',
      items: { type: 'string' },
    },
    featureGates: {
      type: 'object',
      properties: { NodeNetworkPolicy: { type: 'boolean' }, EgressGateway: { type: 'boolean' } },
    },
    egress: {
      type: 'object',
      description: 'Settings of egress gateways.',
      properties: {
        inside: {
          type: 'array',
          description: 'Further destinations (CIDRs) that are never steered.',
          items: { type: 'string' },
        },
        serviceCIDRs: {
          type: 'array',
          description: 'The networks of Services (CIDRs), where there are no ServiceCIDR objects.',
          items: { type: 'string' },
        },
        podCIDRs: {
          type: 'array',
          description: 'The networks of pods (CIDRs). Empty: those that Nodes say, if they are private.',
          items: { type: 'string' },
        },
        unknownPods: {
          type: 'string',
          enum: ['Hold', 'Pass'],
          default: 'Hold',
          description: 'What happens to packets of a pod that the node does not know yet.',
        },
        namespaceLimits: {
          type: 'object',
          description: 'What the EgressPolicies of one namespace may have in all.',
          properties: {
            policies: { ...whole(1, 10_000, 'The number of policies.'), default: 100 },
            networks: {
              ...whole(1, 100_000, 'The entries of to and except; a policy without any counts as one.'),
              default: 1024,
            },
          },
        },
        encryption: {
          type: 'string',
          enum: ['None', 'WireGuard'],
          default: 'None',
          description:
            'How Nodes send packets to gateways. WireGuard: authenticated and encrypted; in a cluster only.',
        },
        cniResults: {
          type: 'string',
          description: 'The directory of the results of CNI, as libcni keeps them.',
        },
        cniPlugins: {
          type: 'string',
          description: "The directory into which the agent puts the CNI plugin nodewall-egress; '': none.",
        },
      },
    },
    guard: {
      type: 'object',
      description:
        'Guarded apply: a change that denies more is tried first, and rolled back if a probe fails.',
      properties: {
        enabled: { type: 'boolean', description: 'Default: true in a cluster, false with --manifests.' },
        window: seconds('How long a change is tried before it is confirmed.'),
        failAfter: seconds('How long a probe fails before the change is rolled back.'),
        probes: {
          type: 'array',
          description:
            'Connections that must stay possible, besides those to API server, controller and DNS.',
          items: {
            type: 'object',
            required: ['name'],
            properties: {
              name: { type: 'string', description: 'A name for messages.' },
              direction: {
                type: 'string',
                enum: ['egress', 'ingress'],
                description: 'ingress: a connection to this node. Default: as from says.',
              },
              tcp: { type: 'string', description: 'ADDRESS:PORT, inwards node:PORT; a connection is made.' },
              udp: {
                type: 'string',
                description: 'ADDRESS:PORT, inwards node:PORT; a datagram is sent, any answer counts.',
              },
              http: {
                type: 'string',
                description: 'An http or https URL with an address, inwards with node; any answer counts.',
              },
              icmp: { type: 'string', description: 'ADDRESS, inwards node; an echo request is sent.' },
              from: {
                type: 'string',
                enum: ['node', 'peer', 'controller'],
                description: 'Who connects to this node: one other agent, or the leading controller.',
                default: 'node',
              },
            },
          },
        },
        confirm: {
          type: 'string',
          enum: ['Automatic', 'Manual'],
          default: 'Automatic',
          description: 'Manual waits for nodewall confirm, and rolls back after timeout.',
        },
        timeout: seconds('With confirm: Manual, how long to wait for nodewall confirm.'),
      },
    },
    dataplane: { type: 'string', enum: [...DATAPLANE_NAMES, 'auto'], default: 'nftables' },
    iptables: {
      type: 'object',
      description: 'Settings of the dataplane iptables.',
      properties: {
        variant: {
          type: 'string',
          enum: ['auto', 'nft', 'legacy'],
          default: 'auto',
          description: "The variant of the commands; auto: the system's own iptables.",
        },
      },
    },
    rollout: {
      type: 'object',
      description: 'Of the controller: how new versions of policies without spec.rollout go to the nodes.',
      properties: ROLLOUT_FIELDS,
    },
    dispatch: { type: 'string', enum: ['indexed', 'linear'], default: 'indexed' },
    antreaStatus: {
      type: 'boolean',
      default: true,
      description:
        'Of the controller: write the statuses of policies of crd.antrea.io where no Antrea controller runs.',
    },
    boot: {
      type: 'object',
      description: 'The files that are loaded at boot, before an agent runs.',
      properties: {
        enabled: { type: 'boolean', default: true, description: 'Keep them equal to the rules in force.' },
        onError: {
          type: 'string',
          enum: ['minimal', 'open'],
          default: 'minimal',
          description: 'What is in force if they cannot be loaded.',
        },
        ssh: {
          type: 'array',
          description: 'The networks (CIDRs) from which minimal lets SSH in.',
          items: { type: 'string' },
        },
      },
    },
    controllerPorts: {
      type: 'object',
      description: "The ports of the controllers' pods; both may be the same.",
      properties: {
        agents: { ...port, description: 'Agents, the aggregated API and other controllers.' },
        webhook: { ...port, description: 'The webhook.' },
      },
    },
    leaderElection: {
      type: 'object',
      description: 'Of the controller: the Lease by which one of the controllers leads. Seconds.',
      properties: {
        leaseDuration: leaseTime('How long the others wait for a leader that does not renew it.'),
        renewDeadline: leaseTime('How long a leader that cannot renew it goes on; below leaseDuration.'),
        retryPeriod: leaseTime('Between two attempts; below renewDeadline.'),
      },
    },
  },
};
