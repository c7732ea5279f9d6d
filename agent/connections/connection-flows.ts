import { CONNTRACK_STATUS, type ConntrackEntry, TCP_ENDED } from 'nftables-napi';
import type { Config } from '../../apis/config.ts';
import type { Address } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import type { KnownFlow } from '../observe/known-flow.ts';
import type { NodeFacts, OwnAddresses } from './node-facts.ts';

/** A direction in which rules decided about a connection when it began. */
interface ConnectionFlow {
  /** The first packet, but for its interface group. */
  readonly flow: Omit<KnownFlow, 'group'>;
  /** The groups of the interfaces that it may have come in by, or gone out by; at least one. */
  readonly groups: readonly number[];
}

/** IGMP has no connections. */
const IGMP = 2;

interface FlowsOptions {
  readonly facts: NodeFacts;
  readonly config: Config;
  /** The Node's addresses as the policies know them, also those that no interface has. */
  readonly declared: OwnAddresses;
  /** Groups that rules name. */
  readonly named: ReadonlySet<number>;
}

/**
 * Returns a function that says what the rules are asked about a tracked connection: nothing if no
 * rule decides about it, or if it is over. It is judged as its first packet was: the original
 * direction, Host traffic by the destination after NAT, NodePort traffic by that before it.
 * Conntrack does not know interfaces. Packets to and from addresses that are routed to local pods
 * may pass an interface of the group of pods, and others do not; any other group that an interface
 * of this node has is possible.
 */
export function connectionFlows(options: FlowsOptions): (entry: ConntrackEntry) => ConnectionFlow[] {
  const { facts, config, declared, named } = options;
  const { pods } = config.interfaceGroups;
  const { others, withPods } = possibleGroups(facts.groups, pods, named);
  const isOwn = (address: Address): boolean => facts.own.has(address) || declared.has(address);
  const groupsFor = (...addresses: readonly Address[]): readonly number[] => {
    const { localPods } = facts;
    const isPod = localPods === null || addresses.some((address) => hasMember(localPods, address));
    return isPod ? withPods : others;
  };
  return ({ family, protocol, status, tcpState, original, reply }) => {
    const { expected, dying, destinationNat } = CONNTRACK_STATUS;
    if ((status & (expected | dying)) !== 0 || TCP_ENDED.has(tcpState) || protocol === IGMP) return [];
    const src = addressOfBytes(original.source);
    const originalDst = addressOfBytes(original.destination);
    const dst = addressOfBytes(reply.source);
    const starts = facts.own.has(src);
    const common = {
      protocol,
      family,
      originalDst,
      srcPort: original.sourcePort ?? undefined,
      originalDstPort: original.destinationPort ?? undefined,
      type: original.icmpType ?? undefined,
      code: original.icmpCode ?? undefined,
      srcIsOwn: isOwn(src),
      isUntracked: false,
    } as const;
    const host = {
      ...common,
      traffic: 'Host',
      dst,
      dstPort: reply.sourcePort ?? undefined,
      dstIsOwn: isOwn(dst),
    } as const;
    const found: ConnectionFlow[] = [];
    if (starts) {
      found.push({ flow: { ...host, direction: 'egress', peer: dst }, groups: groupsFor(dst, originalDst) });
    } else if ((status & destinationNat) !== 0) {
      const flow = {
        ...common,
        traffic: 'NodePort',
        direction: 'ingress',
        dst: originalDst,
        dstPort: common.originalDstPort,
        dstIsOwn: isOwn(originalDst),
        peer: src,
      } as const;
      found.push({ flow, groups: groupsFor(src) });
    }
    if (facts.own.has(dst)) {
      found.push({ flow: { ...host, direction: 'ingress', peer: src }, groups: groupsFor(src) });
    }
    return found;
  };
}

/** One group stands for all that no rule names: rules treat these alike. */
function possibleGroups(
  groups: readonly number[],
  pods: number,
  named: ReadonlySet<number>,
): { readonly others: readonly number[]; readonly withPods: readonly number[] } {
  const present = [...new Set(groups)].filter((group) => group !== pods);
  const [unnamed] = present.filter((group) => !named.has(group));
  const distinct = present.filter((group) => named.has(group) || group === unnamed);
  const others = distinct.length === 0 ? [0] : distinct;
  return { others, withPods: [...others, pods] };
}

/** The address of 4 or 16 bytes in network byte order. */
export function addressOfBytes(bytes: Uint8Array): Address {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length === 4) return { family: 4, value: BigInt(view.getUint32(0)) };
  return { family: 6, value: (view.getBigUint64(0) << 64n) | view.getBigUint64(8) };
}
