import assert from 'node:assert/strict';
import { type NodeFlow, type NodeFlows, parseNodeFlows } from './node-flows.ts';
import { InvalidError } from './schema/shape.ts';

const TIME = '2026-01-02T03:04:05Z';
const KIND: NodeFlow = {
  direction: 'ingress',
  traffic: 'NodePort',
  peer: '192.0.2.0/24',
  protocol: 'tcp',
  port: 22,
  verdict: 'Allow',
  connections: 5,
  live: null,
  firstSeen: TIME,
  lastSeen: TIME,
  flow: { direction: 'ingress', src: '192.0.2.7', protocol: 'tcp', dstPort: 22, interfaceGroup: 7 },
  decision: {
    verdict: 'Allow',
    policy: 'p',
    rule: 'r',
    ruleIndex: 0,
    tier: 'application',
    reason: 'rule',
    skipped: [{ policy: 'p', rule: 'q' }],
  },
};
const FLOWS: NodeFlows = {
  node: 'cp-1',
  since: TIME,
  liveAt: null,
  flows: [KIND],
  isCut: false,
  kinds: 1,
  missed: { leftOut: 0, overruns: 0, busySeconds: 0 },
  controlPlane: [{ protocol: 'tcp', ports: [443, 443], peers: ['192.0.2.9/32'] }],
};

describe('the flows of a node', () => {
  it('are accepted as they are, also from a newer agent', () => {
    const newer = { ...FLOWS, flows: [{ ...KIND, more: 1 }], more: 1 };
    assert.equal(parseNodeFlows(newer), newer);
  });

  const WRONG: Readonly<Record<string, unknown>> = {
    node: { ...FLOWS, node: 7 },
    missed: { ...FLOWS, missed: null },
    'controlPlane[0].ports': {
      ...FLOWS,
      controlPlane: [{ protocol: 'tcp', ports: [1, 2, 3], peers: 'any' }],
    },
    'flows[0]': { ...FLOWS, flows: [{ ...KIND, direction: 'egress' }] },
    'flows[0].peer': { ...FLOWS, flows: [{ ...KIND, peer: '\u001b[2J' }] },
    'flows[0].protocol': { ...FLOWS, flows: [{ ...KIND, protocol: 256 }] },
    'flows[0].firstSeen': { ...FLOWS, flows: [{ ...KIND, firstSeen: 'yesterday' }] },
    'flows[0].connections': { ...FLOWS, flows: [{ ...KIND, connections: 2 ** 53 }] },
    'flows[0].flow': { ...FLOWS, flows: [{ ...KIND, flow: { ...KIND.flow, interfaceGroup: 'wan' } }] },
    'flows[0].decision': {
      ...FLOWS,
      flows: [{ ...KIND, decision: { ...KIND.decision, verdict: 'Pass' } }],
    },
  };
  for (const [path, value] of Object.entries(WRONG))
    it(`are refused: ${path}`, () => {
      const isNamed = ({ message }: Error): boolean =>
        message.startsWith(`its answer is not one about flows: ${path}`);
      assert.throws(
        () => parseNodeFlows(value),
        (error) => error instanceof InvalidError && isNamed(error),
      );
    });
});
