import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { MOST_NAMED, MOST_PREVIEW_ROWS } from '../../apis/console-documents.ts';
import { policy, tcp } from '../../test/kernel/manifests.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import { ChangeOverrunError, ImpactJudge } from '../impact/impact.ts';
import { type PreviewResult, previewOf } from './preview.ts';

const NODES = Array.from({ length: MOST_NAMED + 10 }, (_, i) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: `n${String(i).padStart(2, '0')}` },
  status: { addresses: [{ type: 'InternalIP', address: `192.0.2.${i + 1}` }] },
}));
const SSH = {
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'Guardrail',
  metadata: { name: 'ssh' },
  spec: { nodeSelector: {}, mustAllow: [{ direction: 'ingress', ports: [{ port: 22 }] }] },
};
const drops = (...ports: readonly number[]) =>
  policy('p', { ingress: ports.map((port) => ({ name: `r${port}`, action: 'Drop', ports: [tcp(port)] })) });

function preview(objects: readonly object[], change: unknown, checkpoint = (): void => {}): PreviewResult {
  const config = { ...DEFAULT_CONFIG, antiSpoofing: false };
  const judge = new ImpactJudge(config);
  return previewOf(typeof change === 'string' ? change : JSON.stringify(change), toClusterObjects(objects), {
    config,
    judge,
    checkpoint,
  });
}

describe('a preview', () => {
  it('has the difference, for nodes that it counts', () => {
    const { preview: found, denied } = preview([...NODES, drops(80)], drops(80, 443));
    assert.deepEqual(found.problems, []);
    assert.deepEqual(found.objects, [{ kind: 'ClusterNetworkPolicy', name: 'p', change: 'replaced' }]);
    const [group, ...others] = found.groups;
    assert.deepEqual(
      [others.length, group?.nodes.length, group?.nodeCount],
      [0, MOST_NAMED, MOST_NAMED + 10],
    );
    assert.deepEqual(group?.changes, [
      {
        direction: 'ingress',
        traffic: 'Host',
        flowsText: 'tcp port 443',
        peersText: 'any',
        before: 'Allow',
        after: 'Drop',
        ruleBefore: null,
        ruleAfter: { policy: 'p', rule: 'r443', ruleIndex: 1 },
      },
    ]);
    assert.deepEqual(
      denied.map(({ nodes, rows }) => [nodes.length, rows.length]),
      [[MOST_NAMED + 10, 1]],
    );
  });

  it('leaves rows out that are too many, and counts them', () => {
    const own = NODES.slice(0, 3);
    const change = own.map(({ metadata: { name } }, i) => ({
      ...drops(),
      metadata: { name: `p${i}` },
      spec: {
        priority: 5,
        appliedTo: [{ nodeSelector: { matchLabels: { 'kubernetes.io/hostname': name } } }],
        ingress: Array.from({ length: 250 }, (_, j) => ({
          name: `r${j}`,
          action: 'Drop',
          ports: [tcp(1000 * (i + 1) + 3 * j)],
        })),
      },
    }));
    const nodes = own.map((node) => ({
      ...node,
      metadata: { ...node.metadata, labels: { 'kubernetes.io/hostname': node.metadata.name } },
    }));
    const { preview: found } = preview(nodes, change.map((one) => JSON.stringify(one)).join('\n---\n'));
    assert.deepEqual(found.problems, []);
    const rows = found.groups.flatMap(({ changes }) => changes);
    assert.deepEqual([rows.length, found.leftOut], [MOST_PREVIEW_ROWS, 250]);
  });

  it('names the Guardrail that would be broken, and its flow', () => {
    const { preview: found } = preview([...NODES, SSH], drops(22));
    const { guardrail, item, flow, rule } = found.brokenGuardrail ?? assert.fail();
    assert.deepEqual(
      [guardrail, item, flow.dstPort, rule],
      ['ssh', 'mustAllow[0]', 22, { policy: 'p', rule: 'r22', ruleIndex: 0 }],
    );
    assert.equal(preview([...NODES, SSH], drops(23)).preview.brokenGuardrail, null);
  });

  it('has the problems that `nodewall validate` names, and computes nothing with errors', () => {
    const problemsOf = (change: unknown) =>
      preview([...NODES, drops(80)], change).preview.problems.map(
        ({ severity, line, kind, name, path }) => `${severity} ${line} ${kind}/${name} ${path}`,
      );
    const yaml = 'apiVersion: nodewall.io/v1alpha1\nkind: ClusterNetworkPolicy\nmetadata: {name: x}\nspec:\n';
    assert.deepEqual(problemsOf(`${yaml}  priority: 0\n  appliedTo: [{nodeSelector: {}}]\n`), [
      'error 5 ClusterNetworkPolicy/x spec.priority',
    ]);
    assert.deepEqual(problemsOf(NODES[0]), ['error 1 Node/n00 ']);
    assert.deepEqual(problemsOf(''), ['warning 0 / ', 'error 0 / ']);
    const waiting = policy('p', { tier: 'none', ingress: [{ name: 'r', action: 'Drop', ports: [tcp(80)] }] });
    const { problems, groups } = preview(NODES, waiting).preview;
    assert.deepEqual(
      problems.map(({ severity, path, message }) => [severity, path, /until it exists/.test(message)]),
      [['warning', 'spec.tier', true]],
    );
    assert.deepEqual(groups, []);
  });

  it('says what it has where the difference takes too long', () => {
    let calls = 0;
    const late = (): void => {
      if (++calls > 1) throw new ChangeOverrunError('late');
    };
    const { preview: found } = preview([...NODES, drops(80)], drops(80, 443), late);
    assert.match(found.noDifference ?? '', /takes too long/);
    assert.equal(found.objects.length, 1);
  });
});
