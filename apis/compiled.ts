import type { MemberSet } from './memberset.ts';
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
  /** Ids of the AddressSets that stand for the peers: none (any address) or one. */
  readonly addressSets: readonly string[];
  /** Sorted, without duplicates; empty is all traffic of every protocol. */
  readonly services: readonly Service[];
}

/** A policy's rules, and the nodes each applies to. */
export interface CompiledPolicy {
  readonly apiGroup: ApiGroup;
  readonly name: string;
  readonly rules: readonly CompiledRule[];
  /** By rule (same index as `rules`): names of the nodes it applies to. Equal spans are the same object. */
  readonly spans: readonly ReadonlySet<string>[];
}

/** The addresses one rule's peers stand for; shared by every rule that says the same. */
export interface AddressSet {
  readonly id: string;
  /** The peers in words, sorted, for comments and `explain`. */
  readonly description: string;
  /** Whether members can change without a policy edit (a selector is among the peers). */
  readonly dynamic: boolean;
  readonly members: MemberSet;
}

/** Everything stage 2 knows, for all nodes. */
export interface Compiled {
  /** Sorted by evaluation order. */
  readonly policies: readonly CompiledPolicy[];
  readonly addressSets: ReadonlyMap<string, AddressSet>;
  /** Id of the AddressSet that `nodeSelector: {}` stands for; the failsafe list's `nodes`. */
  readonly allNodes: string;
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
  readonly allNodes: string;
  /** The node's own addresses: explain tells loopback traffic by them. */
  readonly nodeAddresses: readonly string[];
}
