import type { Range } from '../../lib/net/ranges.ts';
import type { Verdict } from '../flow.ts';
import type { Direction, PolicyTraffic } from '../objects.ts';

/** The rule that decides. */
export interface DecidingRule {
  readonly policy: string;
  readonly rule: string;
  readonly ruleIndex: number;
}

/**
 * A set of flows whose verdict differs: all combinations of the values of each field. Lists are
 * sorted and disjoint; null is every value. In the form of docs/semantics.md section 6.
 */
export interface Row {
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  /** Addresses of the other end: FIRST-LAST. */
  readonly peers: readonly string[] | null;
  /** Link groups. */
  readonly interfaceGroups: readonly Range[] | null;
  readonly protocols: readonly Range[] | null;
  /** Only of TCP, UDP and SCTP. */
  readonly ports: readonly Range[] | null;
  readonly sourcePorts: readonly Range[] | null;
  /** Only of ICMP and ICMPv6. */
  readonly icmp: { readonly types: readonly Range[]; readonly codes: readonly Range[] | null } | null;
  /** Only of IGMP; `groups`: destinations, FIRST-LAST. */
  readonly igmp: {
    readonly types: readonly Range[] | null;
    readonly groups: readonly string[] | null;
  } | null;
  readonly before: Verdict;
  readonly after: Verdict;
  /** Null: no rule decides. */
  readonly ruleBefore: DecidingRule | null;
  readonly ruleAfter: DecidingRule | null;
}
