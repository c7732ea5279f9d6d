import type { NodeFlow, NodeFlows } from '../../apis/node-flows.ts';

/** A day after SINCE. */
export const NOW = Date.parse('2026-01-08T00:00:00Z');
const SINCE = '2026-01-07T00:00:00Z';

/** TCP inwards, ten connections, unless said. */
export function seenKind(peer: string, port: number, more: Partial<NodeFlow> = {}): NodeFlow {
  const { direction = 'ingress', protocol = 'tcp' } = more;
  const ends = peer.includes('/') ? {} : direction === 'ingress' ? { src: peer } : { dst: peer };
  const hasPort = more.icmpType === undefined && more.allPorts !== true && typeof protocol === 'string';
  return {
    direction,
    traffic: 'Host',
    peer,
    protocol,
    verdict: 'Allow',
    connections: 10,
    live: 0,
    firstSeen: SINCE,
    lastSeen: '2026-01-07T12:00:00Z',
    decision: null,
    ...(hasPort ? { port } : {}),
    flow: { direction, protocol, ...ends, ...(hasPort ? { dstPort: port } : {}) },
    ...more,
  };
}

export function seenOn(node: string, ...flows: readonly NodeFlow[]): NodeFlows {
  const missed = { leftOut: 0, overruns: 0, busySeconds: 0 };
  return { node, since: SINCE, liveAt: null, flows, isCut: false, kinds: flows.length, missed };
}
