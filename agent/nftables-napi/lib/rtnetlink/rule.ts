import { attribute, IS_LITTLE_ENDIAN, type NetlinkMessage, u32 } from '../netlink-message.ts';
import { AF, dumpMessage, RouteMessage, type RouteOperation, RTM, routeMessage } from './object.ts';

/** A rule of policy routing that looks at nothing but the packet's mark. */
export interface RouteRule {
  readonly family: 4 | 6;
  readonly priority: number;
  readonly protocol: number;
  readonly action: 'table' | 'goto' | 'nop' | 'other';
  /** The table of action `table`, else 0. */
  readonly table: number;
  /** Priority of the rule that follows; of action `goto`, else 0. */
  readonly target: number;
  readonly mark: number;
  /** 0: whatever the mark is. */
  readonly mask: number;
  /** For packets that have another mark. */
  readonly invert: boolean;
  /** Only when read: it looks at more than the mark, or does more. */
  readonly hasMore: boolean;
}

/** struct fib_rule_hdr: family, lengths, TOS, table, reserved (2 bytes), action, flags. */
const HEADER = 12;
const ACTION = 7;
const FLAGS = 8;
const FIB_RULE_INVERT = 2;
/** linux/fib_rules.h. */
const FRA = {
  destination: 1,
  source: 2,
  input: 3,
  target: 4,
  priority: 6,
  mark: 10,
  realms: 11,
  tunnel: 12,
  suppressGroup: 13,
  suppressLength: 14,
  table: 15,
  mask: 16,
  output: 17,
  l3mdev: 19,
  users: 20,
  protocol: 21,
  ipProtocol: 22,
  sourcePorts: 23,
  destinationPorts: 24,
} as const;
/**
 * Attributes that make `hasMore`; the kernel always sends the two of `suppress`, as -1 for none.
 */
const MORE = [
  FRA.destination,
  FRA.source,
  FRA.input,
  FRA.realms,
  FRA.tunnel,
  FRA.output,
  FRA.l3mdev,
  FRA.users,
  FRA.ipProtocol,
  FRA.sourcePorts,
  FRA.destinationPorts,
];
const NONE = 0xffff_ffff;
/** FR_ACT_*. */
const ACTIONS = { table: 1, goto: 2, nop: 3 } as const;
const TOS = 3;

/** The kernel has no replacing of rules: `replace` is refused (EOPNOTSUPP or EEXIST). */
export function ruleRequest(operation: RouteOperation, it: RouteRule): Uint8Array {
  const { family, priority, protocol, action, table, target, mark, mask, invert } = it;
  if (action === 'other') throw new RangeError('a rule of another action cannot be made');
  const header = new Uint8Array(HEADER);
  header[0] = AF[family];
  header[ACTION] = ACTIONS[action];
  new DataView(header.buffer).setUint32(FLAGS, invert ? FIB_RULE_INVERT : 0, IS_LITTLE_ENDIAN);
  return routeMessage(operation, RTM.rule, [
    header,
    attribute(FRA.priority, u32(priority)),
    attribute(FRA.protocol, Uint8Array.of(protocol)),
    ...(mask === 0 ? [] : [attribute(FRA.mark, u32(mark)), attribute(FRA.mask, u32(mask))]),
    ...(action === 'table' ? [attribute(FRA.table, u32(table))] : []),
    ...(action === 'goto' ? [attribute(FRA.target, u32(target))] : []),
  ]);
}

/** A request for the rules of both families, and of multicast routing. */
export function ruleDump(): Uint8Array {
  return dumpMessage(RTM.rule, new Uint8Array(HEADER));
}

/** Null of other families than IPv4 and IPv6. */
export function toRouteRule(message: NetlinkMessage): RouteRule | null {
  const it = RouteMessage.of(message, HEADER);
  const family = it?.family() ?? null;
  if (it === null || family === null) return null;
  const number = it.headerU8(ACTION);
  const action = (['table', 'goto', 'nop'] as const).find((name) => ACTIONS[name] === number) ?? 'other';
  const isSuppressing = [FRA.suppressGroup, FRA.suppressLength].some((type) => it.u32(type, NONE) !== NONE);
  return {
    family,
    priority: it.u32(FRA.priority, 0),
    protocol: it.u8(FRA.protocol, 0),
    action,
    table: action === 'table' ? it.u32(FRA.table, it.headerU8(4)) : 0,
    target: it.u32(FRA.target, 0),
    mark: it.u32(FRA.mark, 0),
    mask: it.u32(FRA.mask, 0),
    invert: (it.headerU32(FLAGS) & FIB_RULE_INVERT) !== 0,
    hasMore: isSuppressing || it.headerU8(TOS) !== 0 || MORE.some((type) => it.has(type)),
  };
}
