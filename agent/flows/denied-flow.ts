import type { Config } from '../../apis/config.ts';
import { PROTOCOL_NUMBERS } from '../../apis/protocols.ts';
import type { ConnectionRecord, SpoofedRecord } from '../record/record.ts';
import type { SeenFlow } from './flow-kind.ts';

/**
 * The flow that a record of the flow log says a rule denied; null: none did, or the packet could
 * not be parsed. The source of a spoofed packet is false.
 */
export function toDeniedFlow(
  record: ConnectionRecord | SpoofedRecord,
  { interfaceGroups }: Config,
): SeenFlow | null {
  if (record.reason === 'spoofed') return null;
  const { verdict, audit, event, direction, traffic, src, dst, protocol } = record;
  if (verdict !== 'Drop' && verdict !== 'Reject') return null;
  if (audit === true || event !== undefined) return null;
  if (src === undefined || dst === undefined || protocol === undefined) return null;
  const { srcPort, dstPort, icmpType, igmpType, icmpCode, interfaceGroup = 0 } = record;
  const { originalDst = null, originalDstPort = null } = record;
  const isNodePort = traffic === 'NodePort';
  // Rules for NodePorts test the port that the client used, which not every kernel tells.
  const [to, port] = isNodePort ? [originalDst ?? dst, originalDstPort] : [dst, dstPort];
  return {
    direction,
    traffic: isNodePort ? 'NodePort' : 'Host',
    protocol: typeof protocol === 'number' ? protocol : PROTOCOL_NUMBERS[protocol],
    peer: direction === 'ingress' ? src : dst,
    port: port ?? null,
    type: icmpType ?? igmpType ?? null,
    code: icmpCode ?? null,
    group: typeof interfaceGroup === 'number' ? interfaceGroup : (interfaceGroups[interfaceGroup] ?? 0),
    verdict,
    local: direction === 'ingress' ? to : src,
    srcPort: srcPort ?? null,
    originalDst: isNodePort ? null : originalDst,
    originalPort: isNodePort ? null : originalDstPort,
  };
}
