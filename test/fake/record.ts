/** Rules with records, and the packets that the kernel hands over for them. */

import assert from 'node:assert/strict';
import type { NflogPacket, ScannedConnection } from 'nftables-napi';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { NodeFlow, NodeFlows } from '../../apis/node-flows.ts';
import type { Direction, PolicyMode, RuleAction } from '../../apis/objects.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { packAddress } from '../../lib/net/member-set.ts';
import { shortHash } from '../../lib/sharing/hash.ts';

interface RuleOptions {
  readonly policy?: string;
  readonly action?: RuleAction;
  readonly mode?: PolicyMode;
  readonly direction?: Direction;
  readonly ruleIndex?: number;
  readonly logged?: boolean;
}

export function fakeRule(rule: string, options: RuleOptions = {}): CompiledRule {
  const { policy = 'p', action = 'Drop', mode = 'Enforce', direction = 'ingress', ruleIndex = 0 } = options;
  return {
    id: shortHash(12, `${policy}/${rule}`),
    source: { apiGroup: 'nodewall.io', policy, uid: '', generation: 0, direction, ruleIndex, rule },
    tier: 'securityops',
    tierPriority: 100,
    priority: 10,
    action,
    mode,
    traffic: 'Host',
    peers: [{ kind: 'any' }],
    services: [],
    log: options.logged === false ? null : { label: 'a label' },
  };
}

export function fakeState(...rules: CompiledRule[]): NodeState {
  const none = new Map();
  const failsafe = { allNodes: '', controllers: '', apiServerPorts: [], nodeAddresses: [] };
  return { node: 'node-0', rules, addressSets: none, serviceSets: none, ...failsafe };
}

/** A TCP packet from 10.0.0.7 port 40000 to 192.168.10.11 port 6443, of 60 bytes. */
export function fakePacket(rule: CompiledRule, more: Partial<NflogPacket> = {}): NflogPacket {
  const header = [0x45, 0, 0, 60, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 7, 192, 168, 10, 11];
  const payload = Uint8Array.from([...header, 0x9c, 0x40, 0x19, 0x2b, 0, 0, 0, 1]);
  return {
    group: 7411,
    prefix: `nodewall ${rule.id} ${rule.action}${rule.mode === 'Audit' ? ' audit' : ''}`,
    payload,
    length: payload.length,
    family: 2,
    hook: rule.source.direction === 'ingress' ? 1 : 3,
    inputInterface: rule.source.direction === 'ingress' ? 2 : null,
    outputInterface: rule.source.direction === 'ingress' ? null : 2,
    timestamp: null,
    sequence: null,
    original: null,
    ...more,
  };
}

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

/** A connection as a test says it; without ports it has none. */
export interface Ends {
  readonly src: string;
  readonly dst: string;
  readonly port?: number;
  /** After destination NAT. */
  readonly to?: string;
  readonly toPort?: number;
  readonly protocol?: number;
  readonly status?: number;
  readonly tcpState?: number;
  readonly icmpType?: number;
}

/** As the kernel's table has it. */
export function scannedConnection(ends: Ends): ScannedConnection {
  const { src, dst, port = -1, to = dst, toPort = port, protocol = 6, icmpType = -1 } = ends;
  const packed = [src, dst, to].map((text) => {
    const address = parseAddress(text);
    assert.ok(address !== null);
    return packAddress(address);
  });
  const width = packed[0]?.length ?? 0;
  return {
    bytes: Buffer.concat(packed),
    family: width === 4 ? 4 : 6,
    protocol,
    status: ends.status ?? 0,
    tcpState: ends.tcpState ?? (protocol === 6 ? 3 : -1),
    source: 0,
    destination: width,
    sourcePort: port < 0 ? -1 : 40_000,
    destinationPort: port,
    icmpType,
    icmpCode: icmpType < 0 ? -1 : 0,
    replySource: 2 * width,
    replySourcePort: toPort,
  };
}
