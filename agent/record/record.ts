import type { ApiGroup, Direction, PolicyTraffic, RuleAction } from '../../apis/objects.ts';
import type { Protocol } from './packet.ts';

/** One line of the record. Keys that don't apply are left out. */
export type LogRecord = ConnectionRecord | NoticeRecord;

/** The rule that a record is of. */
interface RuleFields {
  readonly policy: string;
  readonly apiGroup: ApiGroup;
  readonly tier: string;
  readonly rule: string;
  /** Counts from 0 in its own direction's list. */
  readonly ruleIndex: number;
  readonly label?: string;
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
}

interface Losses {
  /** Connections that matched this rule since its last record and were not recorded: the limit. */
  readonly suppressed?: number;
  /**
   * Records of any rule that were lost since the last line: the reader or the disk was too slow.
   */
  readonly lost?: number;
}

/** One new connection that matched a rule with logging. */
export interface ConnectionRecord extends RuleFields, Losses {
  /**
   * ISO 8601, UTC: when the packet arrived, or where the kernel doesn't tell (packets of this host)
   * when it was read.
   */
  readonly time: string;
  readonly node: string;
  /** What the rule says; with `audit`, what it would have done. */
  readonly verdict: RuleAction;
  /** Nothing was enforced. */
  readonly audit?: true;
  /** Absent where the packet can't be read. */
  readonly src?: string;
  readonly dst?: string;
  readonly protocol?: Protocol;
  readonly srcPort?: number;
  readonly dstPort?: number;
  readonly icmpType?: number;
  readonly icmpCode?: number;
  readonly igmpType?: number;
  /** What the client asked for, where destination NAT has changed it and the kernel tells. */
  readonly originalDst?: string;
  readonly originalDstPort?: number;
  /** Where it came in (ingress) or goes out (egress). */
  readonly interface?: string;
  /**
   * Its link group: the name that the configuration has for it, else the number; absent for group
   * 0.
   */
  readonly interfaceGroup?: string | number;
  /** Bytes of the packet with its IP header. */
  readonly length?: number;
  /**
   * policy/rule: an earlier Audit rule of the same policy matched this packet too; enforced, that
   * one would have decided.
   */
  readonly after?: string;
}

/** What no connection's record came to say in time. Has no verdict. */
export interface NoticeRecord extends Partial<RuleFields>, Losses {
  readonly time: string;
  readonly node: string;
}

/** One line with its newline; every text from outside is quoted as JSON. */
export function recordLine(record: LogRecord): string {
  return `${JSON.stringify(record)}\n`;
}

/** Microseconds since 1970 as ISO 8601. */
export function timeText(microseconds: number): string {
  const whole = new Date(Math.floor(microseconds / 1000)).toISOString().slice(0, -1);
  return `${whole}${String(microseconds % 1000).padStart(3, '0')}Z`;
}
