/**
 * A connection as `explain` is asked about it, and the answer. The shapes are those of the command
 * line.
 */

import type { Direction, RuleAction } from './objects.ts';

/** One new connection. An absent field is unknown and matches only rules that do not test it. */
export interface Flow {
  readonly direction: Direction;
  readonly src?: string;
  readonly dst?: string;
  readonly protocol?: 'tcp' | 'udp' | 'sctp' | 'icmp' | 'icmpv6' | 'igmp' | number;
  readonly srcPort?: number;
  readonly dstPort?: number;
  /** The destination before destination NAT, which the failsafe list also tests. Absent: no NAT. */
  readonly originalDst?: string;
  readonly originalDstPort?: number;
  readonly icmpType?: number;
  readonly icmpCode?: number;
  readonly igmpType?: number;
  readonly interfaceGroup?: string | number;
  readonly traffic?: 'Host' | 'NodePort';
  /**
   * A packet that another table has left out of connection tracking; of TCP, not one that asks for
   * a connection. Absent: false.
   */
  readonly untracked?: boolean;
}

export type Verdict = 'Allow' | 'Drop' | 'Reject';

export interface Answer {
  readonly verdict: Verdict;
  readonly policy: string | null;
  readonly rule: string | null;
  readonly ruleIndex: number | null;
  readonly tier: string | null;
  readonly reason: 'rule' | 'default' | 'exempt' | 'failsafe' | 'spoofed';
  /** The exemption that accepted the flow; only with reason `exempt`. */
  readonly exemption?: string;
  /** Rules that matched and were skipped by the failsafe list, in order. */
  readonly skipped: readonly { readonly policy: string; readonly rule: string }[];
  /** Rules of Audit policies that matched before the decision, in order; absent is none. */
  readonly audited?: readonly {
    readonly policy: string;
    readonly rule: string;
    readonly action: RuleAction;
  }[];
}

/** One rule that was tested, in order, and the result. */
export interface Considered {
  readonly policy: string;
  readonly rule: string;
  readonly ruleIndex: number;
  readonly tier: string;
  readonly action: RuleAction;
  /** The part of the rule that the flow did not match; null if the rule matched. */
  readonly mismatch: 'address' | 'interface' | 'service' | null;
  /**
   * decided: the rule gave the verdict. passed: it matched, and evaluation goes on with the
   * baseline tier. audited: it matched and decides nothing. skipped: it matched, and the failsafe
   * list skipped it. spared: it matched, and packets to local pods skip it, as it names no pod.
   */
  readonly outcome: 'no match' | 'skipped' | 'spared' | 'audited' | 'passed' | 'decided';
}

/** An answer with the rules that were tested. */
export interface Explanation extends Answer {
  /** The rules that were tested, in order, up to the one that decided; only if asked for. */
  readonly considered?: readonly Considered[];
  /**
   * NAMESPACE/NAME of the Service whose healthCheckNodePort this is: the Node itself answers there,
   * so it is Host traffic. Absent: of none, or Services are not known.
   */
  readonly healthCheckOf?: string;
}
