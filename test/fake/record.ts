/** Rules with records, and the packets that the kernel hands over for them. */
import type { NflogPacket } from 'nftables-napi';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Direction, PolicyMode, RuleAction } from '../../apis/objects.ts';
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
