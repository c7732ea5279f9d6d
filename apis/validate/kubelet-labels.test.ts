import assert from 'node:assert/strict';
import { validateObject } from './object.ts';

const TEXT = /a kubelet may write these labels/;
const GATEWAY = (nodeSelector: object) => ({
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'EgressGateway',
  metadata: { name: 'g' },
  spec: { nodeSelector, allowedNamespaces: {} },
});
const POLICY = (rule: object, more: object = {}) => ({
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'ClusterNetworkPolicy',
  metadata: { name: 'p' },
  spec: { priority: 1, appliedTo: [{ nodeSelector: {} }], ...rule, ...more },
});
const ingress = (action: string, ...from: object[]) => ({
  ingress: [{ action, from, ports: [{ port: 22 }] }],
});
const exists = (key: string, operator = 'Exists') => ({ matchExpressions: [{ key, operator }] });

/** The paths at which it is warned. */
function warned(object: object, failsafe: readonly [] | null = []): string[] {
  const { problems } = validateObject(object, { egress: true, failsafe });
  assert.deepEqual(
    problems.filter(({ severity }) => severity === 'error'),
    [],
  );
  return problems.filter(({ message }) => TEXT.test(message)).map(({ path }) => path.join('.'));
}

describe('the labels that kubelets may write', () => {
  const OPEN: Readonly<Record<string, object>> = {
    'a label without prefix': { matchLabels: { egress: 'internet' } },
    'a label of a company': { matchLabels: { 'example.com/edge': '' } },
    'the host name': { matchLabels: { 'kubernetes.io/hostname': 'edge-1' } },
    'a zone': exists('topology.kubernetes.io/zone'),
    'a label of node.kubernetes.io': exists('node.kubernetes.io/edge'),
    'a protected label that must not be there': exists('node-role.kubernetes.io/worker', 'DoesNotExist'),
    'a prefix that only ends alike': exists('notkubernetes.io/edge'),
  };
  const CLOSED: Readonly<Record<string, object>> = {
    'a label of node-restriction.kubernetes.io': exists('node-restriction.kubernetes.io/edge'),
    'one of a prefix below it': exists('example.com.node-restriction.kubernetes.io/edge'),
    'a role': { matchLabels: { 'node-role.kubernetes.io/edge': '' } },
    'a protected label beside others': {
      ...exists('node-restriction.kubernetes.io/edge'),
      matchLabels: { a: 'b' },
    },
  };

  for (const [what, nodeSelector] of Object.entries(OPEN))
    it(`${what}: warned of, in a gateway and an Allow of ingress`, () => {
      assert.deepEqual(warned(GATEWAY(nodeSelector)), ['spec.nodeSelector']);
      assert.deepEqual(warned(POLICY(ingress('Allow', { nodeSelector }))), [
        'spec.ingress.0.from.0.nodeSelector',
      ]);
    });

  for (const [what, nodeSelector] of Object.entries(CLOSED))
    it(`${what}: not warned of`, () => {
      assert.deepEqual(warned(GATEWAY(nodeSelector)), []);
      assert.deepEqual(warned(POLICY(ingress('Allow', { nodeSelector }))), []);
    });

  it('grant nothing in other rules, nor where every Node is meant', () => {
    const nodeSelector = { matchLabels: { a: 'b' } };
    assert.deepEqual(warned(POLICY(ingress('Drop', { nodeSelector }))), []);
    assert.deepEqual(warned(POLICY(ingress('Allow', { nodeSelector: {} }))), []);
    assert.deepEqual(warned(POLICY({ egress: [{ action: 'Allow', to: [{ nodeSelector }] }] })), []);
    assert.deepEqual(warned(POLICY(ingress('Allow', { nodeSelector }), { mode: 'Audit' })), []);
  });

  it('are one warning for a policy, and none where no risks are asked for', () => {
    const nodeSelector = { matchLabels: { a: 'b' } };
    const both = POLICY(ingress('Allow', { nodeSelector }, { nodeSelector: { matchLabels: { c: 'd' } } }));
    assert.equal(warned(both).length, 1);
    assert.deepEqual(warned(both, null), []);
    assert.deepEqual(warned(GATEWAY(nodeSelector), null), []);
  });
});
