import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { findingText } from '../../apis/lint/finding.ts';
import type { NodeFlow } from '../../apis/node-flows.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { systemClock } from '../../lib/process/clock.ts';
import { policy, tcp } from '../../test/kernel/manifests.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import { NoDocumentError, Surveys } from './surveys.ts';

const NODES = ['a', 'b'].map((name, i) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  status: { addresses: [{ type: 'InternalIP', address: `192.0.2.${i + 1}` }] },
}));
const close = (name: string, port: number, priority: number) =>
  policy(name, { priority, ingress: [{ name: 'close', action: 'Drop', ports: [tcp(port)] }] });

const seen = (peer: string, dstPort: number, verdict: NodeFlow['verdict'] = 'Allow'): NodeFlow => ({
  direction: 'ingress',
  traffic: 'Host',
  peer,
  protocol: 'tcp',
  port: dstPort,
  verdict,
  connections: 2,
  live: 1,
  firstSeen: '2026-11-26T10:00:00Z',
  lastSeen: '2026-11-26T11:00:00Z',
  flow: { direction: 'ingress', protocol: 'tcp', dstPort },
  decision: null,
});

describe('surveys of a cluster', function () {
  this.timeout(60_000);
  let objects: ClusterObjects | null = null;
  const flows = [seen('10.0.0.7', 443), seen('10.0.0.0/24', 443), seen('10.0.0.7', 22)];
  const surveys = new Surveys({
    config: { ...DEFAULT_CONFIG, antiSpoofing: false },
    objects: () => objects,
    ask: async (node) => {
      if (node === 'b') return { problem: 'no answer' };
      const missed = { leftOut: 0, overruns: 0, busySeconds: 0 };
      const answer = { node, since: '2026-11-26T10:00:00Z', liveAt: null, isCut: false, kinds: 4, missed };
      return { text: JSON.stringify({ ...answer, flows: [...flows, seen('10.0.0.8', 443, 'Drop')] }) };
    },
    clock: systemClock,
  });
  after(() => surveys.close());

  it('are none before the objects are known', async () => {
    await assert.rejects(surveys.lint(), NoDocumentError);
    objects = toClusterObjects([...NODES, close('first', 80, 5), close('second', 80, 6)]);
  });

  it('have the findings about the policies in force', async () => {
    const { findings, leftOut } = await surveys.lint();
    assert.deepEqual(
      findings.map((one) => [one.policy, one.nodes, findingText(one)]),
      [['second', ['a', 'b'], 'decides nothing: first/close matches all of its flows first']],
    );
    assert.equal(leftOut, 0);
  });

  it('have the flows that nodes have seen, and that a change would deny', async () => {
    const { impact, groups } = await surveys.preview(JSON.stringify(close('third', 443, 7)), 'ann');
    assert.deepEqual(
      groups.flatMap(({ changes }) => changes.map(({ flowsText }) => flowsText)),
      ['tcp port 443'],
    );
    assert.ok('flows' in impact);
    assert.deepEqual(impact.asked, {
      nodes: ['a', 'b'],
      failed: [{ node: 'b', error: 'no answer' }],
      notAsked: 0,
    });
    assert.deepEqual(
      impact.flows.map(({ peer, port, connections, live, nodes }) => [peer, port, connections, live, nodes]),
      [
        ['10.0.0.7', 443, 2, 1, ['a']],
        ['10.0.0.0/24', 443, 2, 1, ['a']],
      ],
    );
    const { impact: none } = await surveys.preview(JSON.stringify(close('first', 80, 5)), 'ann');
    assert.deepEqual(none, { reason: 'nothing that is allowed now would be denied' });
  });
});
