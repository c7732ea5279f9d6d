import type { ResetConnection } from '../../agent/connections/end-connections.ts';
import { endText } from './egress-who.ts';

/** One connection of a pod, as `egress reset` and `flush` list it. */
export function resetText({ protocol, src, srcPort, dst, dstPort, steered }: ResetConnection): string {
  const end = (address: string, port: number | null): string => endText(address, port ?? undefined);
  const ends = `${protocol} ${end(src, srcPort)} → ${end(dst, dstPort)}`;
  return steered ? ends : `${ends}  (without its egress gateway)`;
}
