import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { ConnectionRecord } from '../record/record.ts';
import { FlowInventory } from './flow-inventory.ts';
import { flowOfKind, type SeenFlow, toDeniedFlow } from './flow-kind.ts';

function flowOf(changes: Partial<SeenFlow>) {
  const seen: SeenFlow = {
    direction: 'ingress',
    traffic: 'Host',
    verdict: 'Allow',
    protocol: 6,
    group: 8,
    peer: '198.51.100.1',
    port: 443,
    type: null,
    code: null,
    local: '192.0.2.1',
    srcPort: 40_000,
    originalDst: null,
    originalPort: null,
    ...changes,
  };
  return flowOfKind(new FlowInventory(0).kindOf(seen, 0));
}

describe('the flow that rules are asked about', () => {
  it('begins at the peer, or at the node', () => {
    const ends = { src: '198.51.100.1', dst: '192.0.2.1' };
    const rest = { traffic: 'Host', protocol: 6, interfaceGroup: 8, srcPort: 40_000, dstPort: 443 };
    assert.deepEqual(flowOf({}), { direction: 'ingress', ...ends, ...rest });
    assert.deepEqual(flowOf({ direction: 'egress' }), {
      direction: 'egress',
      src: ends.dst,
      dst: ends.src,
      ...rest,
    });
  });

  it('has the destination before NAT, and types in the place of ports', () => {
    const { originalDst, originalDstPort } = flowOf({ originalDst: '203.0.113.1', originalPort: 80 });
    assert.deepEqual([originalDst, originalDstPort], ['203.0.113.1', 80]);
    const none = { port: null, srcPort: null };
    const icmp = flowOf({ ...none, protocol: 1, type: 8, code: 0 });
    assert.deepEqual(
      [icmp.icmpType, icmp.icmpCode, 'dstPort' in icmp, 'srcPort' in icmp],
      [8, 0, false, false],
    );
    const igmp = flowOf({ ...none, protocol: 2, type: 0x16 });
    assert.deepEqual([igmp.igmpType, 'icmpType' in igmp], [0x16, false]);
  });
});

const RECORD: ConnectionRecord = {
  time: '2026-01-01T00:00:00Z',
  node: 'n',
  verdict: 'Drop',
  policy: 'p',
  apiGroup: 'nodewall.io',
  tier: 'application',
  rule: 'r',
  ruleIndex: 0,
  direction: 'ingress',
  traffic: 'Host',
  src: '198.51.100.7',
  dst: '192.0.2.1',
  protocol: 'tcp',
  srcPort: 40_000,
  dstPort: 80,
};

const deniedFlowOf = (changes: Partial<ConnectionRecord>) =>
  toDeniedFlow({ ...RECORD, ...changes }, DEFAULT_CONFIG);

describe('a denied flow', () => {
  it('has the other end, the port of the server and the link group', () => {
    assert.deepEqual(deniedFlowOf({ interfaceGroup: 'pods' }), {
      direction: 'ingress',
      traffic: 'Host',
      protocol: 6,
      peer: '198.51.100.7',
      port: 80,
      type: null,
      code: null,
      group: 8,
      verdict: 'Drop',
      local: '192.0.2.1',
      srcPort: 40_000,
      originalDst: null,
      originalPort: null,
    });
    const out = deniedFlowOf({
      direction: 'egress',
      originalDst: '10.96.0.1',
      originalDstPort: 443,
      verdict: 'Reject',
    });
    assert.deepEqual(
      [out?.peer, out?.local, out?.port, out?.originalDst, out?.originalPort, out?.verdict],
      ['192.0.2.1', '198.51.100.7', 80, '10.96.0.1', 443, 'Reject'],
    );
    const { srcPort: _, dstPort: __, ...bare } = RECORD;
    const ping = toDeniedFlow({ ...bare, protocol: 'icmp', icmpType: 8, icmpCode: 0 }, DEFAULT_CONFIG);
    assert.deepEqual([ping?.protocol, ping?.port, ping?.type, ping?.code], [1, null, 8, 0]);
    assert.equal(toDeniedFlow({ ...bare, protocol: 112, interfaceGroup: 77 }, DEFAULT_CONFIG)?.group, 77);
  });

  it('has the port that the client of a NodePort used, if it is known', () => {
    const known = deniedFlowOf({ traffic: 'NodePort', originalDst: '192.0.2.9', originalDstPort: 30_080 });
    assert.deepEqual([known?.local, known?.port, known?.originalDst], ['192.0.2.9', 30_080, null]);
    assert.equal(deniedFlowOf({ traffic: 'NodePort' })?.port, null);
  });

  it('is none of what no rule denied', () => {
    for (const changes of [
      { verdict: 'Allow' },
      { verdict: 'Pass' },
      { audit: true },
      { event: 'ended' },
    ] as const)
      assert.equal(deniedFlowOf(changes), null, JSON.stringify(changes));
    const { protocol: _, ...unparsed } = RECORD;
    assert.equal(toDeniedFlow(unparsed, DEFAULT_CONFIG), null);
    const ends = { src: '192.0.2.1', dst: '192.0.2.1', protocol: 'tcp', time: '', node: 'n' } as const;
    const spoofed = { ...ends, verdict: 'Drop', reason: 'spoofed', direction: 'ingress' } as const;
    assert.equal(toDeniedFlow(spoofed, DEFAULT_CONFIG), null);
  });
});
