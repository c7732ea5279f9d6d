import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type {
  ClusterGroup,
  ClusterNetworkPolicySpec,
  NetworkPolicyPeer,
  Node,
  Pod,
} from '../../apis/objects.ts';
import { hiddenPodWarnings, masquerader } from './risks.ts';

const node = (name: string, ...addresses: string[]): Node => ({ kind: 'Node', name, labels: {}, addresses });
const NODES = [node('a', '10.0.0.1', 'fd00::1'), node('b', '10.0.0.2', 'fd00::2')];
const FLANNEL: Pod = {
  kind: 'Pod',
  namespace: 'kube-flannel',
  name: 'kube-flannel-ds-x7',
  serviceAccount: 'flannel',
  labels: { app: 'flannel', tier: 'node' },
  addresses: ['10.0.0.1'],
  hostNetwork: true,
};

describe('who masquerades pods towards other Nodes', () => {
  const by = (nodes: readonly Node[], pods: readonly Pod[], except: readonly string[] | null) =>
    masquerader(
      { nodes, pods },
      { ...DEFAULT_CONFIG.masquerade, enabled: except !== null, except: except ?? [] },
    );

  it('is known where the objects and the configuration show it', () => {
    assert.match(by(NODES, [], []) ?? '', /^masquerade of the configuration/);
    assert.match(by(NODES, [], ['10.0.0.0/8']) ?? '', /^masquerade/, 'IPv6');
    assert.match(by(NODES, [FLANNEL], null) ?? '', /^flannel/);
  });

  it('is nobody where they do not', () => {
    assert.equal(by(NODES, [], null), null);
    assert.equal(by(NODES, [], ['10.0.0.0/8', 'fd00::/8']), null);
    assert.equal(by(NODES.slice(0, 1), [], []), null, 'there is no other Node');
    const { hostNetwork: _, ...withOwnNetwork } = FLANNEL;
    const tenants = [{ ...FLANNEL, namespace: 'shop' }, withOwnNetwork, { ...FLANNEL, labels: {} }];
    assert.equal(by(NODES, tenants, null), null);
  });
});

describe('the warning of pods that other Nodes do not see', () => {
  const GROUPS: readonly ClusterGroup[] = [
    ['pods', { namespaceSelector: {} }] as const,
    ['parent', { childGroups: ['pods', 'absent'] }] as const,
    ['nodes', { nodeSelector: {} }] as const,
  ].map(([name, spec]) => ({ kind: 'ClusterGroup', apiGroup: 'nodewall.io', name, spec }));

  function warnings(
    peers: readonly (readonly NetworkPolicyPeer[])[],
    spec: Partial<ClusterNetworkPolicySpec> = {},
    by: string | null = 'somebody',
  ): string[] {
    const ingress = peers.map((from) => ({ action: 'Reject' as const, from }));
    return hiddenPodWarnings(
      {
        kind: 'ClusterNetworkPolicy',
        apiGroup: 'nodewall.io',
        name: 'p',
        uid: '',
        generation: 1,
        spec: { priority: 5, appliedTo: [{ nodeSelector: {} }], ingress, ...spec },
      },
      { groups: GROUPS },
      by,
    );
  }
  const PODS = [{ podSelector: {} }];

  it('names the first rule, the reason and the remedy', () => {
    const [text, ...more] = warnings([[{ nodeSelector: {} }], PODS, PODS]);
    assert.match(
      text ?? '',
      /^spec\.ingress\[1\]: selects pods \(and so does one rule more\), and somebody gives .* by nodeSelector \(docs\/masquerade\.md\)$/,
    );
    assert.deepEqual(more, []);
  });

  it('is given for selectors of pods, also in groups', () => {
    for (const peer of [{ namespaceSelector: {} }, { group: 'pods' }, { group: 'parent' }])
      assert.equal(warnings([[peer]]).length, 1, JSON.stringify(peer));
  });

  it('is not given for other peers, egress, Audit, or where nobody masquerades', () => {
    const account = { serviceAccount: { namespace: 'monitoring', name: 'prometheus' } };
    for (const peer of [
      account,
      { nodeSelector: {} },
      { group: 'nodes' },
      { ipBlock: { cidr: '10.0.0.0/8' } },
    ])
      assert.deepEqual(warnings([[peer]]), [], JSON.stringify(peer));
    assert.deepEqual(warnings([], { egress: [{ action: 'Drop', to: PODS }] }), []);
    assert.deepEqual(warnings([PODS], { mode: 'Audit' }), []);
    assert.deepEqual(warnings([PODS], {}, null), []);
  });
});
