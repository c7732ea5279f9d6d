import type { ApiGroup, Direction, PolicyTraffic, RuleAction } from '../../apis/objects.ts';
import type { Protocol } from './packet.ts';

/** One line of the flow log. Keys that do not apply are absent. */
export type LogRecord = ConnectionRecord | SpoofedRecord | RollbackRecord | NoticeRecord;

/** The rule that a record belongs to. */
interface RuleFields {
  readonly policy: string;
  readonly apiGroup: ApiGroup;
  readonly tier: string;
  readonly rule: string;
  /** Index in the list of its direction, from 0. */
  readonly ruleIndex: number;
  readonly label?: string;
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
}

interface Losses {
  /** Connections that matched this rule since its last record and exceeded the limit. */
  readonly suppressed?: number;
  /**
   * Records of any rule that were lost since the last line, because the reader or the disk was too
   * slow.
   */
  readonly lost?: number;
}

/** A packet and its interface. */
export interface PacketFields {
  /**
   * ISO 8601, UTC: when the packet arrived or, if the kernel has no time stamp (packets of this
   * host), when it was read.
   */
  readonly time: string;
  readonly node: string;
  /** Absent if the packet cannot be parsed. */
  readonly src?: string;
  readonly dst?: string;
  readonly protocol?: Protocol;
  readonly srcPort?: number;
  readonly dstPort?: number;
  readonly icmpType?: number;
  readonly icmpCode?: number;
  readonly igmpType?: number;
  /** The destination before destination NAT, if it differs and the kernel reports it. */
  readonly originalDst?: string;
  readonly originalDstPort?: number;
  /** Name of the interface that the packet came in by (ingress) or goes out by (egress). */
  readonly interface?: string;
  /** Its link group: the name in the configuration, else the number. Absent for group 0. */
  readonly interfaceGroup?: string | number;
  /** Length of the packet with its IP header, in bytes. */
  readonly length?: number;
}

/** One new connection that matched a rule with logging. */
export interface ConnectionRecord extends PacketFields, RuleFields, Losses {
  /** The rule's action; with `audit`, what it would have done. */
  readonly verdict: RuleAction;
  /** The rule's policy has mode Audit; the rule decided nothing. */
  readonly audit?: true;
  /**
   * `POLICY/RULE`: an earlier Audit rule of the same policy that also matched this packet; if
   * enforced, it would have decided.
   */
  readonly after?: string;
  /** The connection was not new: it was ended because the rule denies it now. */
  readonly event?: 'ended';
  /** Why it was ended; only with `event`. */
  readonly reason?: EndReason;
  /** The user who ended it; only with reason `flush`. */
  readonly by?: string;
}

/** `Recheck`: the policy's `established`. `flush`: the command. */
export type EndReason = 'Recheck' | 'flush';

/** Fields of a spoofed packet in the place of a rule's. */
export interface SpoofedFields {
  readonly reason: 'spoofed';
  readonly direction: 'ingress';
}

/** A new packet that was dropped before any rule, for its source address. */
export interface SpoofedRecord extends PacketFields, SpoofedFields, Losses {
  readonly verdict: 'Drop';
}

/** A change of rules was rolled back (guarded apply). Has no verdict. */
export interface RollbackRecord extends Losses {
  readonly time: string;
  readonly node: string;
  readonly event: 'rolledBack';
  readonly reason: string;
  /** API group/name of the policies that changed, and are held. */
  readonly policies: readonly string[];
  /** The probe that failed; absent: it was not a probe. */
  readonly probe?: string;
  /** The rule that denies the probe's flow; absent: none does. */
  readonly apiGroup?: ApiGroup;
  readonly policy?: string;
  readonly rule?: string;
}

/** Losses that no connection record reported in time. Has no verdict. */
export interface NoticeRecord extends Partial<RuleFields>, Partial<Pick<SpoofedFields, 'reason'>>, Losses {
  readonly time: string;
  readonly node: string;
}

/** One line with its newline. All texts are escaped as JSON. */
export function recordLine(record: object): string {
  return `${JSON.stringify(record)}\n`;
}

/** Formats microseconds since 1970 as ISO 8601. */
export function microsecondsText(microseconds: number): string {
  const whole = new Date(Math.floor(microseconds / 1000)).toISOString().slice(0, -1);
  return `${whole}${String(microseconds % 1000).padStart(3, '0')}Z`;
}
