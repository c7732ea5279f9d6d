import type { Flow } from '../../apis/flow.ts';
import { PROTOCOL_NUMBERS } from '../../apis/protocols.ts';
import type { FlowKind } from './flow-kind.ts';

/**
 * The flow that rules are asked about for a kind: the last that was seen. For a folded kind it is
 * one of many, and rules may decide otherwise about the others.
 */
export function toFlow({ last }: Pick<FlowKind, 'last'>): Flow {
  const { direction, traffic, protocol, peer, local, port, srcPort, type, code, group } = last;
  const [src, dst] = direction === 'ingress' ? [peer, local] : [local, peer];
  const isIgmp = protocol === PROTOCOL_NUMBERS.igmp;
  return {
    direction,
    traffic,
    src,
    dst,
    protocol,
    interfaceGroup: group,
    ...(srcPort === null ? {} : { srcPort }),
    ...(port === null ? {} : { dstPort: port }),
    ...(last.originalDst === null ? {} : { originalDst: last.originalDst }),
    ...(last.originalPort === null ? {} : { originalDstPort: last.originalPort }),
    ...(type === null ? {} : isIgmp ? { igmpType: type } : { icmpType: type }),
    ...(code === null ? {} : { icmpCode: code }),
  };
}
