import type { MemberSet } from '../lib/net/member-set.ts';
import type { Config, FailsafeEntry } from './config.ts';
import type { NodeEgress } from './egress/node-egress.ts';
import type { Flow } from './flow.ts';
import type { ApiGroup, Direction, PolicyMode, PolicyTraffic, RuleAction } from './objects.ts';
import type { PlatformEntry } from './platform.ts';

/** Values of stage 2: the result of compile, shared by all nodes that the rules apply to. */

/** The source of a rule; carried to the nft comment, the flow log, the status and errors. */
export interface RuleSource {
  readonly apiGroup: ApiGroup;
  readonly policy: string;
  readonly uid: string;
  readonly generation: number;
  readonly direction: Direction;
  /** Index in the list of its direction, from 0. */
  readonly ruleIndex: number;
  readonly rule: string;
  /**
   * Established connections that the rule denies are ended after a change; absent: they go on. It
   * is part of the source because agents that do not know it refuse rules with unknown fields
   * elsewhere. Without it a rule never matches more.
   */
  readonly established?: 'Recheck';
  /**
   * In a Drop or Reject rule for egress: a peer is a pod selector, a service account or a single
   * address, so the exemption of local pods does not spare its packets. Absent: none is. It is part
   * of the source for the same reason.
   */
  readonly namesPods?: true;
  /**
   * The policy's annotation `nodewall.io/retry`: with a new value, a version that was rolled back
   * is tried again. Absent: there is none.
   */
  readonly retry?: string;
}

/** An inclusive range of ports. */
export type PortRange = readonly [first: number, last: number];

/** A port match: traffic that a rule names. The items of one rule are OR-ed. */
export type PortMatch =
  | {
      readonly protocol: 'tcp' | 'udp' | 'sctp';
      /** Destination ports; absent is every port. */
      readonly ports?: PortRange;
      /** Source ports; absent is every port. */
      readonly sourcePorts?: PortRange;
    }
  | { readonly protocol: 'icmp' | 'icmpv6'; readonly type?: number; readonly code?: number }
  | { readonly protocol: 'igmp'; readonly type?: number; readonly group?: string }
  /**
   * A protocol without a name above, by its number; `group`: a multicast address of either family,
   * the packet's destination.
   */
  | { readonly protocol: number; readonly group?: string };

export interface CompiledRule {
  /** Stable name of the rule: a hash of API group, policy, direction and rule name. */
  readonly id: string;
  readonly source: RuleSource;
  readonly tier: string;
  readonly tierPriority: number;
  readonly priority: number;
  readonly action: RuleAction;
  readonly mode: PolicyMode;
  readonly traffic: PolicyTraffic;
  /** At least one; at most one of each kind, in the order of RulePeer. */
  readonly peers: readonly RulePeer[];
  /**
   * Sorted, without duplicates. Empty: all traffic of every protocol, or the traffic that the peers
   * name (`namesPorts`).
   */
  readonly services: readonly PortMatch[];
  /**
   * Logging of each new connection that matches; null: none. Rules of an Audit policy always have
   * it.
   */
  readonly log: RuleLog | null;
  /**
   * Fields that a newer controller wrote and this version does not know, as in `field "user"`;
   * absent: none. Without them the rule might match more, so its policy is not enforced here.
   */
  readonly unsupported?: readonly string[];
}

export function isDenial(action: string): boolean {
  return action === 'Drop' || action === 'Reject';
}

/** Whether the node drops or rejects what matches the rule. */
export function isDenying({ action, mode }: Pick<CompiledRule, 'action' | 'mode'>): boolean {
  return mode === 'Enforce' && isDenial(action);
}

export interface RuleLog {
  /** `logLabel`; '' if the rule has none. */
  readonly label: string;
}

/** A policy's rules, and the nodes each applies to. */
export interface CompiledPolicy {
  readonly apiGroup: ApiGroup;
  readonly name: string;
  readonly rules: readonly CompiledRule[];
  /**
   * For each rule (same index as `rules`), the names of the nodes it applies to. Equal spans are
   * the same object.
   */
  readonly spans: readonly ReadonlySet<string>[];
  /** As in PolicyShare; no two versions of a policy apply to the same node. */
  readonly version?: string;
  readonly since?: number;
  /** With `version`: `spans`, with the nodes that have another version. */
  readonly selected?: readonly ReadonlySet<string>[];
}

/** The addresses that the peers of a rule stand for; shared by all rules with the same peers. */
export interface AddressSet {
  readonly id: string;
  /** Human-readable list of the peers, sorted, for comments and `explain`. */
  readonly description: string;
  /** Whether members can change without a policy edit (a selector or a name is among the peers). */
  readonly dynamic: boolean;
  /**
   * The fqdn peers, lower case, sorted. Each node adds the addresses that they resolve to
   * (names.ts).
   */
  readonly names: readonly string[];
  /** Does not contain the addresses of `names` until names.ts adds them. */
  readonly members: MemberSet;
  readonly unknown?: UnknownFields;
}

/**
 * Fields of a set that a newer controller wrote and this version does not know; absent: none.
 * Without them the set might have other members, so no rule that names it is enforced.
 */
export type UnknownFields = Readonly<Record<string, unknown>>;

/**
 * The addresses and ports that a rule's `toServices` stands for; shared by all rules with the same
 * `toServices`.
 */
export interface ServiceSet {
  readonly id: string;
  /** The Services as namespace/name, sorted. */
  readonly description: string;
  /** Sorted, without duplicates. */
  readonly members: readonly ServiceMember[];
  readonly unknown?: UnknownFields;
}

export interface ServiceMember {
  readonly address: string;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly port: number;
}

/** The result of stage 2, for all nodes. */
export interface Compiled {
  /** Sorted by evaluation order. */
  readonly policies: readonly CompiledPolicy[];
  readonly addressSets: ReadonlyMap<string, AddressSet>;
  readonly serviceSets: ReadonlyMap<string, ServiceSet>;
  /**
   * Endpoints of Services in `toServices` that do not count, as no pod has their address; by
   * namespace/name.
   */
  readonly leftOutEndpoints: ReadonlyMap<string, readonly string[]>;
  /** Id of the AddressSet of the peer `nodeSelector: {}`: `nodes` in the failsafe list. */
  readonly allNodes: string;
  /** Id of the AddressSet of nodewall's own controllers: `controllers` in the failsafe list. */
  readonly controllers: string;
  /**
   * TCP ports of the endpoints of Service default/kubernetes, sorted. The failsafe list treats them
   * like 6443.
   */
  readonly apiServerPorts: readonly number[];
  /** Node name to its own addresses. */
  readonly nodeAddresses: ReadonlyMap<string, readonly string[]>;
  /**
   * Node name to the entries of its annotation `nodewall.io/platform`, where it has any. Absent: no
   * Node has.
   */
  readonly platforms?: ReadonlyMap<string, readonly PlatformEntry[]>;
  /**
   * For egress gateways, by node name; absent: the feature gate EgressGateway is off. From one
   * state to the next, unchanged parts are the same objects. All nodes have the same `inside` and
   * `nodes`.
   */
  readonly egress?: ReadonlyMap<string, NodeEgress>;
}

/** Value of stage 4: everything one node must enforce. */
export interface NodeState {
  readonly node: string;
  /** The rules that apply to this node, in evaluation order, ingress first. */
  readonly rules: readonly CompiledRule[];
  /** The AddressSets that `rules` and the failsafe list name. */
  readonly addressSets: ReadonlyMap<string, AddressSet>;
  /** The ServiceSets that `rules` name. */
  readonly serviceSets: ReadonlyMap<string, ServiceSet>;
  readonly allNodes: string;
  /**
   * '' if the state comes from an older controller, or was saved by an older agent, that did not
   * send it.
   */
  readonly controllers: string;
  readonly apiServerPorts: readonly number[];
  /**
   * The destinations that the node's kernel routes to local pods. The agent adds the set: it is
   * neither on the wire nor saved. Absent if not known.
   */
  readonly localPods?: AddressSet;
  /**
   * Names of VRF devices that send without a queue. The agent adds them: they are neither on the
   * wire nor saved. Absent: none are known.
   */
  readonly vrfs?: readonly string[];
  /**
   * Further entries of the failsafe list of egress: the control plane as the agent reaches it. The
   * agent adds them: they are neither on the wire nor saved. Absent: none.
   */
  readonly controlPlane?: readonly FailsafeEntry[];
  /**
   * Further entries of the failsafe list: what the node needs to carry pods. The agent adds those
   * of its kernel; without an agent, those of the Node's annotation stand for them. Neither on the
   * wire nor saved. Absent: none.
   */
  readonly platform?: readonly PlatformEntry[];
  /**
   * The DNS servers (CIDRs) whose answers the agent learns from. The agent adds the list: it is
   * neither on the wire nor saved. Absent: those of names.learnFrom.
   */
  readonly nameServers?: readonly string[];
  /**
   * The rules are tried. Guarded apply adds it: it is neither on the wire nor saved. Absent: they
   * are not.
   */
  readonly deadline?: Deadline;
  /** The node's own addresses, by which explain recognizes loopback traffic. */
  readonly nodeAddresses: readonly string[];
  /** Egress gateways; absent: the feature gate EgressGateway is off. */
  readonly egress?: NodeEgress;
}

/** A node that nothing is known of. */
export function emptyNodeState(node: string): NodeState {
  return {
    node,
    rules: [],
    addressSets: new Map(),
    serviceSets: new Map(),
    allNodes: '',
    controllers: '',
    apiServerPorts: [],
    nodeAddresses: [],
  };
}

/**
 * A test of the other end of a connection; the peers of one rule are OR-ed. The type parameters are
 * how it names sets and link groups: the sets by id, the groups as written in the policy.
 */
export type RulePeer<A = string, S = string, G = string | number> =
  | { readonly kind: 'any' }
  /** Sorted. The agent looks up the names. */
  | { readonly kind: 'interfaces'; readonly groups: readonly G[] }
  | { readonly kind: 'addresses'; readonly set: A }
  /** Egress: the address and port are those of a Service (`toServices`). */
  | { readonly kind: 'services'; readonly set: S };

interface WithPeers {
  readonly peers: readonly RulePeer[];
}

/** Whether the peers name protocols and ports themselves. */
export function namesPorts({ peers }: WithPeers): boolean {
  return peers.some(({ kind }) => kind === 'services');
}

/** The link groups, and the ids of sets, that the rules' peers name; repeated if several do. */
export function namedBy(rules: readonly WithPeers[]) {
  const addressSets: string[] = [];
  const interfaceGroups: (string | number)[] = [];
  const serviceSets: string[] = [];
  for (const { peers } of rules) {
    for (const peer of peers) {
      if (peer.kind === 'addresses') addressSets.push(peer.set);
      else if (peer.kind === 'interfaces') interfaceGroups.push(...peer.groups);
      else if (peer.kind === 'services') serviceSets.push(peer.set);
      else peer.kind satisfies 'any';
    }
  }
  return { addressSets, interfaceGroups, serviceSets };
}

/** Link groups are 32 bits wide (rtnetlink(7), IFLA_GROUP). */
export const LAST_LINK_GROUP = 2 ** 32 - 1;

/** The number of a link group; undefined if the configuration has no group of that name. */
export function groupNumber(
  group: string | number,
  { interfaceGroups }: Pick<Config, 'interfaceGroups'>,
): number | undefined {
  if (typeof group === 'number') return group;
  return Object.hasOwn(interfaceGroups, group) ? interfaceGroups[group] : undefined;
}

/**
 * Rules are on trial: when nobody has moved the deadline for so long, the kernel accepts the
 * failsafe list and these besides, whatever the rules say (docs/semantics.md section 6).
 */
export interface Deadline {
  /** Whole seconds. */
  readonly milliseconds: number;
  /** From the node, even where the configuration's list lacks them: API servers and controllers. */
  readonly entries: readonly FailsafeEntry[];
  /** Those of the probes that count. */
  readonly flows: readonly Flow[];
}
