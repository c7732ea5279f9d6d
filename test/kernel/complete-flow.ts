/**
 * Makes a flow complete and its addresses the topology's, so that a packet says all that rules may
 * ask about.
 */
import type { AddressPlan, ClientAddress } from '../netns/address-plan.ts';
import { type Flow, isV6, protocolNumber, unsendable } from './flow.ts';

/** A flow as it may be drawn: anything but the direction may be absent. */
export interface PartialFlow extends Partial<Omit<Flow, 'direction' | 'protocol'>> {
  readonly direction: Flow['direction'];
  readonly protocol?: string | number;
}

/**
 * The nearest flow that the topology can carry; undefined when there is none (mixed families,
 * NodePort without ports, …). What is absent is chosen by `index`; an address nobody has is
 * replaced by one that somebody has.
 */
export function toCompleteFlow(flow: PartialFlow, plan: AddressPlan, index: number): Flow | undefined {
  const isV6Flow = isV6(flow.src ?? flow.dst ?? (index % 2 ? '::' : ''));
  const family = isV6Flow ? 'v6' : 'v4';
  const isIngress = flow.direction === 'ingress';
  const remoteText = isIngress ? flow.src : flow.dst;
  const client = clientOf(plan, remoteText) ?? pick(plan.clientAddresses, index);
  const own = ownOf(plan, isIngress ? flow.dst : flow.src) ?? pick(plan.nodeAddresses, index)[family];
  const group = flow.dst !== undefined && plan.multicastGroups.includes(flow.dst) ? flow.dst : undefined;
  const remote = remoteText !== undefined && clientOf(plan, remoteText) ? remoteText : client[family];
  const ends = isIngress ? { src: remote, dst: group ?? own } : { src: own, dst: group ?? remote };
  const protocol = (flow.protocol ?? 'tcp') as Flow['protocol'];
  const complete: Flow = {
    direction: flow.direction,
    ...ends,
    protocol,
    ...services(flow, protocolNumber(protocol), index),
    // Multicast leaves by the first client's interface, whoever it was meant for.
    interfaceGroup: (isIngress || group === undefined ? client : pick(plan.clientAddresses, 0)).group,
    ...(flow.traffic === undefined ? {} : { traffic: flow.traffic }),
  };
  return unsendable(complete) === undefined ? complete : undefined;
}

/** The fields that a packet of the protocol has, and no others. */
function services(flow: PartialFlow, protocol: number, index: number): Partial<Flow> {
  switch (protocol) {
    case 1:
    case 58:
      return { icmpType: flow.icmpType ?? (protocol === 1 ? 8 : 128), icmpCode: flow.icmpCode ?? 0 };
    case 2:
      return { igmpType: flow.igmpType ?? 0x16 };
    case 6:
    case 17:
    case 132:
      return { srcPort: flow.srcPort ?? 33_000 + (index % 1000), dstPort: flow.dstPort ?? 8080 };
    default:
      return {};
  }
}

function clientOf(plan: AddressPlan, address: string | undefined): ClientAddress | undefined {
  return plan.clientAddresses.find(({ v4, v6 }) => v4 === address || v6 === address);
}

function ownOf(plan: AddressPlan, address: string | undefined): string | undefined {
  return plan.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]).find((own) => own === address);
}

function pick<T>(list: readonly T[], index: number): T {
  const item = list[index % list.length];
  if (item === undefined) throw new Error('an empty address plan');
  return item;
}
