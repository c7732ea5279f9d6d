import type { Row } from '../../apis/difference/row.ts';
import type { Random } from '../../perf/generate/random.ts';
import { parseAddress } from '../oracle/address.ts';
import { type OracleConfig, protocolNumbers } from '../oracle/flow.ts';
import { type Answer, type Flow, type OracleInput, oracle } from '../oracle/oracle.ts';
import { groupNumber } from '../oracle/peer.ts';

/** A flow of which everything is known but the Node's own address, which may differ by state. */
export interface WholeFlow {
  readonly direction: 'ingress' | 'egress';
  readonly traffic: 'Host' | 'NodePort';
  readonly family: 4 | 6;
  readonly peer: string;
  readonly group: number;
  readonly protocol: number;
  readonly srcPort: number;
  readonly dstPort: number;
  readonly type: number;
  readonly code: number;
  /** The destination of incoming IGMP. */
  readonly igmpGroup: string;
  /** That of incoming packets without ports and types; null: an address of the Node. */
  readonly destination: string | null;
}

const NUMBERED = [1, 2, 6, 17, 58, 132];
const SOME_GROUPS = {
  4: ['224.0.0.5', '224.0.0.18'],
  6: ['ff02::5', 'ff02::12'],
} as const;

/** A link group that no rule names: not that of pods, which the oracle finds by a pod's address. */
const UNNAMED_GROUP = 4_000_000_000;

/** The oracle for flows whose link group is any that no rule names, where they have none. */
export function oracleOfFindings(input: OracleInput): (flow: Flow) => Answer {
  const judge = oracle(input);
  return (flow) => judge({ ...flow, interfaceGroup: flow.interfaceGroup ?? UNNAMED_GROUP });
}

/** Fills in what a flow leaves open. Null: no packet can be it, or its family is not wanted. */
export function wholeFlow(
  flow: Flow,
  random: Random,
  config: OracleConfig,
  families: readonly (4 | 6)[],
): WholeFlow | null {
  const { direction, traffic = 'Host' } = flow;
  const given = direction === 'ingress' ? flow.src : flow.dst;
  const known = parseAddress(given ?? flow.src ?? flow.dst ?? '')?.family;
  const [one, ...others] = families;
  if (one === undefined) return null;
  const family = known ?? random.pick([one, ...others]);
  if (!families.includes(family)) return null;
  const named = typeof flow.protocol === 'string' ? protocolNumbers[flow.protocol] : flow.protocol;
  const protocol =
    named ?? random.pick([6, 17, 132, 47, 89, 112, 255, family === 4 ? 1 : 58, family === 4 ? 2 : 58]);
  if (family === 4 ? protocol === 58 : protocol === 1 || protocol === 2) return null;
  const port = (): number => random.pick([1, 22, 68, 67, 80, 443, 546, 547, 6443, 10250, 30000, 65535]);
  const group = flow.interfaceGroup === undefined ? undefined : groupNumber(flow.interfaceGroup, config);
  return {
    direction,
    traffic,
    family,
    peer: given ?? (family === 4 ? '198.51.100.77' : '2001:db8::77'),
    group: group ?? random.pick([0, 8, 9, 20, 77, 2 ** 32 - 1]),
    protocol,
    srcPort: flow.srcPort || port(),
    dstPort: flow.dstPort || port(),
    type:
      (protocol === 2 ? flow.igmpType : flow.icmpType) ??
      random.pick([0, 8, 3, 128, 133, 135, 143, 255, 0x16]),
    code: flow.icmpCode ?? random.pick([0, 1, 255]),
    igmpGroup: (family === 4 && direction === 'ingress' ? flow.dst : undefined) ?? '224.0.0.1',
    destination:
      (direction === 'ingress' ? flow.dst : undefined) ?? random.pick([null, ...SOME_GROUPS[family]]),
  };
}

/** The flow as a state of a Node judges it. */
export function toFlow(whole: WholeFlow, own: string): Flow {
  const { direction, traffic, peer, group, protocol, type, code, srcPort, dstPort } = whole;
  const ends =
    direction === 'ingress' ? { src: peer, dst: destinationOf(whole) ?? own } : { src: own, dst: peer };
  const ports = [6, 17, 132].includes(protocol) ? { srcPort, dstPort } : {};
  const icmp = [1, 58].includes(protocol) ? { icmpType: type, icmpCode: code } : {};
  const igmp = protocol === 2 ? { igmpType: type } : {};
  return { direction, traffic, ...ends, protocol, interfaceGroup: group, ...ports, ...icmp, ...igmp };
}

/** Null: an address of the Node. */
function destinationOf({ protocol, igmpGroup, destination }: WholeFlow): string | null {
  if (protocol === 2) return igmpGroup;
  return NUMBERED.includes(protocol) ? null : destination;
}

/** Whether a row holds a flow, by docs/semantics.md section 6. */
export function isInRow(row: Row, flow: WholeFlow): boolean {
  const { direction, traffic, peer, group, protocol, srcPort, dstPort, type, code } = flow;
  const inNumbers = (ranges: readonly (readonly [number, number])[] | null, value: number): boolean =>
    ranges === null || ranges.some(([first, last]) => first <= value && value <= last);
  const hasPorts = [6, 17, 132].includes(protocol);
  if (row.direction !== direction || row.traffic !== traffic) return false;
  if (!inAddresses(row.peers, peer) || !inNumbers(row.interfaceGroups, group)) return false;
  if (!inNumbers(row.protocols, protocol)) return false;
  if (hasPorts && !(inNumbers(row.ports, dstPort) && inNumbers(row.sourcePorts, srcPort))) return false;
  if ([1, 58].includes(protocol) && row.icmp !== null) {
    if (!inNumbers(row.icmp.types, type) || !inNumbers(row.icmp.codes, code)) return false;
  }
  if (protocol === 2 && row.igmp !== null) {
    const destination = direction === 'ingress' ? flow.igmpGroup : peer;
    if (!inNumbers(row.igmp.types, type) || !inAddresses(row.igmp.groups, destination)) return false;
  }
  if (!NUMBERED.includes(protocol) && row.destinations) {
    const own = flow.family === 4 ? '192.0.2.5' : '2001:db8:5::5';
    if (direction === 'egress') throw new Error('a destination of outgoing packets, which is the peer');
    if (!inAddresses(row.destinations, destinationOf(flow) ?? own)) return false;
  }
  return true;
}

function inAddresses(ranges: readonly string[] | null, text: string): boolean {
  const address = parseAddress(text);
  if (ranges === null || address === undefined) return ranges === null;
  return ranges.some((range) => {
    const [first, last] = range.split('-').map((end) => parseAddress(end));
    if (first === undefined || last === undefined) throw new Error(`not a range: ${range}`);
    return first.family === address.family && first.value <= address.value && address.value <= last.value;
  });
}
