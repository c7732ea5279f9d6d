import { parseAddress } from '../../lib/net/address.ts';
import type { Range } from '../../lib/net/ranges.ts';
import type { Flow } from '../flow.ts';
import { PROTOCOL_NUMBERS } from '../protocols.ts';
import type { Row } from './row.ts';

/**
 * Whether a flow may be one of a row. What the flow does not say is taken for any value; a link
 * group must be a number.
 */
export function mayBeInRow(row: Row, flow: Flow): boolean {
  const { direction, traffic = 'Host', src, dst, protocol, interfaceGroup } = flow;
  if (row.direction !== direction || row.traffic !== traffic) return false;
  const number = typeof protocol === 'string' ? PROTOCOL_NUMBERS[protocol] : protocol;
  if (!isWithin(row.protocols, number)) return false;
  if (!isWithin(row.ports, flow.dstPort) || !isWithin(row.sourcePorts, flow.srcPort)) return false;
  if (row.icmp !== null && !isIn(row.icmp.types, flow.icmpType)) return false;
  if (row.icmp !== null && !isWithin(row.icmp.codes, flow.icmpCode)) return false;
  if (!isWithin(row.igmp?.types ?? null, flow.igmpType)) return false;
  if (typeof interfaceGroup === 'number' && !isWithin(row.interfaceGroups, interfaceGroup)) return false;
  return isAmong(row.peers, direction === 'ingress' ? src : dst);
}

function isWithin(ranges: readonly Range[] | null, value: number | undefined): boolean {
  return ranges === null || isIn(ranges, value);
}

function isIn(ranges: readonly Range[], value: number | undefined): boolean {
  return value === undefined || ranges.some(([first, last]) => first <= value && value <= last);
}

function isAmong(ranges: readonly string[] | null, text: string | undefined): boolean {
  const address = text === undefined ? null : parseAddress(text);
  if (ranges === null || address === null) return true;
  return ranges.some((range) => {
    const [first, last] = range.split('-').map(parseAddress);
    if (first == null || last == null || first.family !== address.family) return false;
    return first.value <= address.value && address.value <= last.value;
  });
}
