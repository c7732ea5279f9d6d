import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type {
  EgressGateway,
  EgressGatewaySpec,
  EgressPolicy,
  EgressPolicySpec,
} from '../../apis/egress/objects.ts';
import { NO_OBJECTS, type Node, type Pod } from '../../apis/objects.ts';
import type { EgressInput } from '../../controller/egress/compile-egress.ts';
import { NO_MEMBERS } from '../../lib/net/member-set.ts';

/** A floating gateway without pools that every namespace may use, but for what is said. */
export function fakeGateway(
  name: string,
  spec: Partial<EgressGatewaySpec> = {},
  status: EgressGateway['status'] = null,
): EgressGateway {
  return {
    kind: 'EgressGateway',
    apiGroup: 'nodewall.io',
    name,
    uid: '',
    generation: 0,
    status,
    spec: {
      nodeSelector: { matchLabels: { egress: 'yes' } },
      ranges: [],
      source: 'Floating',
      choice: 'Failover',
      announce: 'L2',
      probes: [],
      failover: { heartbeatMilliseconds: 500, leaseSeconds: 2, failback: false },
      allowedNamespaces: {},
      default: false,
      ...spec,
    },
  };
}

/**
 * A policy for all pods, by the default gateway, but for what is said.
 *
 * @param name `namespace/name` of an EgressPolicy, the name of a ClusterEgressPolicy
 */
export function fakePolicy(
  name: string,
  spec: Partial<EgressPolicySpec> = {},
  addresses?: readonly string[],
): EgressPolicy {
  const [own = '', namespace = ''] = name.split('/').reverse();
  return {
    kind: namespace === '' ? 'ClusterEgressPolicy' : 'EgressPolicy',
    apiGroup: 'nodewall.io',
    namespace,
    name: own,
    uid: '',
    generation: 0,
    spec: {
      stage: namespace === '' ? 'Default' : 'Namespace',
      appliedTo: [{ podSelector: {} }],
      except: [],
      action: 'Gateway',
      address: { allocation: 'Shared', fixed: {}, count: 1 },
      whenUnavailable: 'Drop',
      priority: 1000,
      mode: 'Enforce',
      ...spec,
    },
    status: addresses === undefined ? null : { addresses },
  };
}

/** A Node with these addresses, labelled as a candidate of fakeGateway unless told otherwise. */
export function fakeNode(name: string, addresses: readonly string[], more: Partial<Node> = {}): Node {
  const labels = { egress: 'yes' };
  return { kind: 'Node', name, labels, addresses, internalAddresses: addresses, ...more };
}

/** @param name `namespace/name` */
export function fakePod(name: string, addresses: readonly string[], more: Partial<Pod> = {}): Pod {
  const [namespace = '', own = ''] = name.split('/');
  return { kind: 'Pod', namespace, name: own, labels: {}, serviceAccount: 'default', addresses, ...more };
}

export function egressInput(objects: Partial<EgressInput>): EgressInput {
  return { ...NO_OBJECTS, ...objects };
}

/** A node that does nothing for egress gateways, but for what is said. */
export function fakeNodeEgress(said: Partial<NodeEgress> = {}): NodeEgress {
  return {
    tunnel: null,
    inside: NO_MEMBERS,
    nodes: NO_MEMBERS,
    floating: NO_MEMBERS,
    unknownPods: 'Pass',
    sources: new Map(),
    pods: new Map(),
    subnets: [],
    classes: new Map(),
    outcomes: new Map(),
    slots: new Map(),
    peers: new Map(),
    arrivals: new Map(),
    served: new Map(),
    takes: new Map(),
    owned: [],
    candidacies: [],
    ...said,
  };
}
