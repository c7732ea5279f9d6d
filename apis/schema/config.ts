import { DATAPLANE_NAMES, EXEMPTIONS } from '../config.ts';
import { ROLLOUT_FIELDS } from '../rollout.ts';
import { choiceField, flagField, textField, wholeField } from './fields.ts';
import type { JsonSchema } from './json-schema.ts';

const settings = (description: string, properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  type: 'object',
  description,
  properties,
});
const texts = (description: string): JsonSchema => ({
  type: 'array',
  description,
  items: { type: 'string' },
});
const port: JsonSchema = { type: 'integer', minimum: 1, maximum: 65535 };

/** A number of seconds, up to 7 days. */
const seconds = (description: string): JsonSchema => wholeField(`${description} Seconds.`, [1, 604_800]);
const leaseTime = (description: string): JsonSchema => wholeField(description, [1, 3600]);
const nflogGroup = wholeField('NFLOG group; names and log need different ones.', [1, 65_535]);

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
    exemptions: settings(
      'Traffic that is accepted before any policy; false turns one off.',
      Object.fromEntries(EXEMPTIONS.map((name) => [name, { type: 'boolean', default: true }])),
    ),
    antiSpoofing: flagField(
      "Drop pods' packets with a Node's address, and own addresses from the network.",
      true,
    ),
    interfaceGroups: {
      type: 'object',
      description: 'Names of link groups: NAME: NUMBER or NAME: {group: NUMBER, match: [...]}.',
      additionalProperties: { 'x-kubernetes-preserve-unknown-fields': true },
    },
    interfaceGroupFile: textField(
      'The file with names of link groups for iproute2 and nft; "" leaves it alone.',
    ),
    masquerade: {
      type: 'object',
      properties: {
        enabled: { type: 'boolean', default: false },
        except: texts('CIDRs.'),
      },
    },
    names: settings('How fqdn peers are resolved.', {
      servers: texts('DNS servers.'),
      minimumTTL: seconds('The shortest time between two queries for a name.'),
      maximumTTL: seconds('The longest time between two queries for a name.'),
      keep: seconds('The time that an address is kept after it was last in an answer.'),
      stale: seconds('The time that the last addresses of a name are kept when it no longer resolves.'),
      learn: flagField('Read the DNS answers that the node gets.', true),
      learnFrom: texts(
        "CIDRs of the DNS servers whose answers are read; an empty list is the node's own servers.",
      ),
      group: nflogGroup,
    }),
    log: settings('The flow log.', {
      file: textField('A path, or stdout.'),
      maxBytes: wholeField('The size at which a file is rotated (bytes).', [65_536, 2 ** 40]),
      maxFiles: wholeField('The number of files that are kept.', [1, 100]),
      rate: wholeField('The most records a second of one rule; 0 is no limit.', [0, 100_000]),
      burst: wholeField('Records of one rule before the rate limit applies.', [1, 1_000_000]),
      group: nflogGroup,
      egressConnections: flagField(
        'Record each connection that leaves by this node as an egress gateway.',
        false,
      ),
    }),
    flowInventory: settings('The kinds of flows of the last 7 days.', {
      enabled: flagField('Keep it, in memory and in the state directory.', true),
    }),
    failsafe: {
      type: 'object',
      properties: {
        ingress: failsafeList,
        egress: failsafeList,
        platform: flagField(
          'Whether both lists also have what this machine needs to carry pods: tunnels, BGP, health ports of the CNI.',
          true,
        ),
        loadBalancers: texts('CIDRs from which load balancers reach the API server on its nodes.'),
        kubeletKubeconfig: textField("The kubelet's kubeconfig; '' is the usual places."),
      },
    },
    nodeCIDRs: texts('CIDRs; addresses of Nodes outside of them do not count. An empty list: all count.'),
    endpointsWithoutPods: texts(
      'Services (NAMESPACE/NAME) whose endpoints toServices has though no pod has them.',
    ),
    featureGates: {
      type: 'object',
      properties: { NodeNetworkPolicy: { type: 'boolean' }, EgressGateway: { type: 'boolean' } },
    },
    egress: settings('Settings of egress gateways.', {
      inside: texts('Further destinations (CIDRs) that are never steered.'),
      serviceCIDRs: texts('The networks of Services (CIDRs), where there are no ServiceCIDR objects.'),
      podCIDRs: texts('The networks of pods (CIDRs). Empty: those that Nodes say, if they are private.'),
      unknownPods: choiceField(
        'What happens to packets of a pod that the node does not know yet.',
        ['Hold', 'Pass'],
        'Hold',
      ),
      namespaceLimits: settings('What the EgressPolicies of one namespace may have in all.', {
        policies: wholeField('The number of policies.', [1, 10_000], 100),
        networks: wholeField(
          'The entries of to and except; a policy without any counts as one.',
          [1, 100_000],
          1024,
        ),
      }),
      encryption: choiceField(
        'How Nodes send packets to gateways. WireGuard: authenticated and encrypted; in a cluster only.',
        ['None', 'WireGuard'],
        'None',
      ),
      cniResults: textField('The directory of the results of CNI, as libcni keeps them.'),
      cniPlugins: textField(
        "The directory into which the agent puts the CNI plugin nodewall-egress; '': none.",
      ),
    }),
    guard: settings(
      'Guarded apply: a change that denies more is tried first, and rolled back if a probe fails.',
      {
        enabled: flagField('Default: true in a cluster, false with --manifests.'),
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
              name: textField('A name for messages.'),
              direction: choiceField('ingress: a connection to this node. Default: as from says.', [
                'egress',
                'ingress',
              ]),
              tcp: textField('ADDRESS:PORT, inwards node:PORT; a connection is made.'),
              udp: textField('ADDRESS:PORT, inwards node:PORT; a datagram is sent, any answer counts.'),
              http: textField('An http or https URL with an address, inwards with node; any answer counts.'),
              icmp: textField('ADDRESS, inwards node; an echo request is sent.'),
              from: choiceField(
                'Who connects to this node: one other agent, or the leading controller.',
                ['node', 'peer', 'controller'],
                'node',
              ),
            },
          },
        },
        confirm: choiceField(
          'Manual waits for nodewall confirm, and rolls back after timeout.',
          ['Automatic', 'Manual'],
          'Automatic',
        ),
        timeout: seconds('With confirm: Manual, how long to wait for nodewall confirm.'),
      },
    ),
    dataplane: { type: 'string', enum: [...DATAPLANE_NAMES, 'auto'], default: 'nftables' },
    iptables: settings('Settings of the dataplane iptables.', {
      variant: choiceField(
        "The variant of the commands; auto: the system's own iptables.",
        ['auto', 'nft', 'legacy'],
        'auto',
      ),
    }),
    rollout: settings(
      'Of the controller: how new versions of policies without spec.rollout go to the nodes.',
      ROLLOUT_FIELDS,
    ),
    dispatch: { type: 'string', enum: ['indexed', 'linear'], default: 'indexed' },
    antreaStatus: flagField(
      'Of the controller: write the statuses of policies of crd.antrea.io where no Antrea controller runs.',
      true,
    ),
    startupTaint: textField(
      "Of the controller: the key of the taint that it removes from a Node once it enforces; '' is none.",
    ),
    boot: settings('The files that are loaded at boot, before an agent runs.', {
      enabled: flagField('Keep them equal to the rules in force.', true),
      onError: choiceField('What is in force if they cannot be loaded.', ['minimal', 'open'], 'minimal'),
      ssh: texts('The networks (CIDRs) from which minimal lets SSH in.'),
    }),
    controllerPorts: settings("The ports of the controllers' pods; both may be the same.", {
      agents: { ...port, description: 'Agents, the aggregated API and other controllers.' },
      webhook: { ...port, description: 'The webhook.' },
    }),
    leaderElection: settings('Of the controller: the Lease by which one of the controllers leads. Seconds.', {
      leaseDuration: leaseTime('How long the others wait for a leader that does not renew it.'),
      renewDeadline: leaseTime('How long a leader that cannot renew it goes on; below leaseDuration.'),
      retryPeriod: leaseTime('Between two attempts; below renewDeadline.'),
    }),
  },
};
