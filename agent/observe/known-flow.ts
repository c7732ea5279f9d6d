import { groupNumber, type NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { type Flow, ipProtocolNumber, PROTOCOL_NUMBERS, parseFlow } from '../../apis/flow.ts';
import type { Direction } from '../../apis/objects.ts';
import { type Address, parseAddress } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';

/** A flow with its texts parsed; undefined: unknown. */
export interface KnownFlow {
  readonly direction: Direction;
  readonly traffic: 'Host' | 'NodePort';
  readonly protocol: number | undefined;
  readonly srcPort: number | undefined;
  readonly dstPort: number | undefined;
  /** ICMP, ICMPv6 or IGMP type. */
  readonly type: number | undefined;
  readonly code: number | undefined;
  readonly family: 4 | 6 | undefined;
  readonly dst: Address | undefined;
  /** The destination before destination NAT; without NAT, the same as `dst`. */
  readonly originalDst: Address | undefined;
  readonly originalDstPort: number | undefined;
  /** The other end: source for ingress, destination for egress. */
  readonly peer: Address | undefined;
  /**
   * Number of the link group of the interface that the packet comes in by (ingress) or goes out by
   * (egress).
   */
  readonly group: number | undefined;
  /**
   * Whether the source (`dstIsOwn`: the destination) is an address of the Node or a loopback
   * address.
   */
  readonly srcIsOwn: boolean;
  readonly dstIsOwn: boolean;
  readonly isUntracked: boolean;
}

/** Returns a function that converts flows for one node. The node's addresses are parsed once. */
export function flowReader(
  { nodeAddresses, localPods }: NodeState,
  config: Config,
): (flow: Flow) => KnownFlow {
  // A flow to a local pod need not say that it leaves by an interface of pods.
  const groupTowards = (to: Address | undefined): number | undefined =>
    localPods !== undefined && to !== undefined && hasMember(localPods.members, to)
      ? config.interfaceGroups.pods
      : undefined;
  const own = new Set(nodeAddresses.map((text) => addressKey(parseAddress(text))));
  return (flow) => {
    const src = address(flow.src);
    const dst = address(flow.dst);
    const { protocol, interfaceGroup } = flow;
    const unnamed = flow.direction === 'egress' ? groupTowards(dst) : undefined;
    const number = protocol === undefined ? undefined : ipProtocolNumber(protocol);
    return {
      direction: flow.direction,
      traffic: flow.traffic ?? 'Host',
      protocol: number,
      srcPort: flow.srcPort,
      dstPort: flow.dstPort,
      type: number === PROTOCOL_NUMBERS.igmp ? flow.igmpType : flow.icmpType,
      code: flow.icmpCode,
      family: (src ?? dst)?.family,
      dst,
      originalDst: address(flow.originalDst) ?? dst,
      originalDstPort: flow.originalDstPort ?? flow.dstPort,
      peer: flow.direction === 'ingress' ? src : dst,
      group: interfaceGroup === undefined ? unnamed : groupNumber(interfaceGroup, config),
      srcIsOwn: isOwn(src, own),
      dstIsOwn: isOwn(dst, own),
      isUntracked: flow.untracked === true,
    };
  };
}

function address(text: string | undefined): Address | undefined {
  return text === undefined ? undefined : (parseAddress(text) ?? undefined);
}

function isOwn(one: Address | undefined, own: ReadonlySet<string>): boolean {
  if (one === undefined) return false;
  const loopback = one.family === 4 ? one.value >> 24n === 127n : one.value === 1n;
  return loopback || own.has(addressKey(one));
}

export function addressKey(one: Address | null): string {
  return `${one?.family}/${one?.value}`;
}

/** Whether it is ICMPv6 of one of these types. */
export function isIcmpv6(flow: KnownFlow, types: readonly number[]): boolean {
  return (
    flow.protocol === PROTOCOL_NUMBERS.icmpv6 &&
    flow.family !== 4 &&
    flow.type !== undefined &&
    types.includes(flow.type)
  );
}

/** A host flow of parsed JSON. Throws a TypeError that says what is wrong. */
export function hostFlow(raw: unknown, { interfaceGroups }: Config): Flow {
  const flow = parseFlow(raw);
  const { interfaceGroup: group } = flow;
  if (typeof group !== 'string' || Object.hasOwn(interfaceGroups, group)) return flow;
  const known = Object.keys(interfaceGroups).join(', ');
  throw new TypeError(`interfaceGroup: no group ${JSON.stringify(group)}; known: ${known}`);
}
