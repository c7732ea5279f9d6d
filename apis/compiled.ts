import type { MemberSet } from '../lib/net/member-set.ts';
import type { ApiGroup, Direction, PolicyMode, PolicyTraffic, RuleAction } from './objects.ts';

/**
 * Stage 2's values: what compile makes of the objects, shared by all nodes they concern.
 */

/** Where a rule comes from; carried to the nft comment, the record, the status and the error. */
export interface RuleSource {
  readonly apiGroup: ApiGroup;
  readonly policy: string;
  readonly uid: string;
  readonly generation: number;
  readonly direction: Direction;
  /** Counts from 0 in its own direction's list. */
  readonly ruleIndex: number;
  readonly rule: string;
}

/** An inclusive range of ports. */
export type PortRange = readonly [first: number, last: number];

/** Traffic a rule names; the entries of one rule are OR-ed. */
export type Service =
  | {
      readonly protocol: 'tcp' | 'udp' | 'sctp';
      /** Destination ports; absent is every port. */
      readonly ports?: PortRange;
      /** Source ports; absent is every port. */
      readonly sourcePorts?: PortRange;
    }
  | { readonly protocol: 'icmp' | 'icmpv6'; readonly type?: number; readonly code?: number }
  | { readonly protocol: 'igmp'; readonly type?: number; readonly group?: string };

export interface CompiledRule {
  /** Names the rule for good: a hash of API group, policy, direction and rule name. */
  readonly id: string;
  readonly source: RuleSource;
  readonly tier: string;
  readonly tierPriority: number;
  readonly priority: number;
  readonly action: RuleAction;
  readonly mode: PolicyMode;
  readonly traffic: PolicyTraffic;
  /**
   * Ids of the AddressSets that stand for the peers with addresses: none or one. A peer of the rule
   * is one in the AddressSet, or behind one of the interface groups, or (alone, egress) in the
   * ServiceSet; all three empty is anybody.
   */
  readonly addressSets: readonly string[];
  /**
   * Link groups of the peers that are such, as they are written, sorted: names are the agent's to
   * look up.
   */
  readonly interfaceGroups: readonly (string | number)[];
  /** Ids of the ServiceSets that `toServices` stands for: none or one. */
  readonly serviceSets: readonly string[];
  /**
   * Sorted, without duplicates; empty is all traffic of every protocol (with a ServiceSet: what
   * that says).
   */
  readonly services: readonly Service[];
  /**
   * What to write of each new connection that matches; null is nothing. Rules of an Audit policy
   * always have it.
   */
  readonly log: RuleLog | null;
}

export interface RuleLog {
  /** `logLabel`; '' where there is none. */
  readonly label: string;
}

/** A policy's rules, and the nodes each applies to. */
export interface CompiledPolicy {
  readonly apiGroup: ApiGroup;
  readonly name: string;
  readonly rules: readonly CompiledRule[];
  /**
   * By rule (same index as `rules`): names of the nodes it applies to. Equal spans are the same
   * object.
   */
  readonly spans: readonly ReadonlySet<string>[];
}

/** The addresses one rule's peers stand for; shared by every rule that says the same. */
export interface AddressSet {
  readonly id: string;
  /** The peers in words, sorted, for comments and `explain`. */
  readonly description: string;
  /** Whether members can change without a policy edit (a selector or a name is among the peers). */
  readonly dynamic: boolean;
  /** The fqdn peers, lower case, sorted: what they resolve to is added on the node (names.ts). */
  readonly names: readonly string[];
  /** Without what `names` resolve to, until names.ts adds it. */
  readonly members: MemberSet;
}

/**
 * The addresses and ports that a rule's `toServices` stands for; shared by every rule that says the
 * same.
 */
export interface ServiceSet {
  readonly id: string;
  /** The Services as namespace/name, sorted. */
  readonly description: string;
  /** Sorted, without duplicates. */
  readonly members: readonly ServiceMember[];
}

export interface ServiceMember {
  readonly address: string;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly port: number;
}

/** Everything stage 2 knows, for all nodes. */
export interface Compiled {
  /** Sorted by evaluation order. */
  readonly policies: readonly CompiledPolicy[];
  readonly addressSets: ReadonlyMap<string, AddressSet>;
  readonly serviceSets: ReadonlyMap<string, ServiceSet>;
  /** Id of the AddressSet that `nodeSelector: {}` stands for; the failsafe list's `nodes`. */
  readonly allNodes: string;
  /** Id of the AddressSet of nodewall's own controllers; the failsafe list's `controllers`. */
  readonly controllers: string;
  /**
   * TCP ports of the endpoints of Service default/kubernetes, sorted: the failsafe list counts them
   * as 6443.
   */
  readonly apiServerPorts: readonly number[];
  /** Node name to its own addresses. */
  readonly nodeAddresses: ReadonlyMap<string, readonly string[]>;
}

/** Stage 4's value: everything one node must enforce. */
export interface NodeState {
  readonly node: string;
  /** The rules that apply to this node, in evaluation order, ingress first. */
  readonly rules: readonly CompiledRule[];
  /** The AddressSets that `rules` and the failsafe list name. */
  readonly addressSets: ReadonlyMap<string, AddressSet>;
  /** The ServiceSets that `rules` name. */
  readonly serviceSets: ReadonlyMap<string, ServiceSet>;
  readonly allNodes: string;
  /** '' where an older controller, or what an older agent saved, does not say. */
  readonly controllers: string;
  readonly apiServerPorts: readonly number[];
  /**
   * The destinations that the node's kernel routes to pods on it. The agent adds it: it is neither
   * on the wire nor saved, and absent where it isn't known.
   */
  readonly localPods?: AddressSet;
  /** The node's own addresses: explain tells loopback traffic by them. */
  readonly nodeAddresses: readonly string[];
}
