import assert from 'node:assert/strict';
import { FlowInventory } from './flow-inventory.ts';
import type { SeenFlow } from './flow-kind.ts';
import { toFlow } from './kind-flow.ts';

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
  return toFlow(new FlowInventory(0).kindOf(seen, 0));
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
