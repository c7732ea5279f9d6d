import assert from 'node:assert/strict';
import { formatProblem } from '../../../apis/validate/problem.ts';
import { type Assembled, assemble } from '../../watch/assemble.ts';
import { fromLastValidJson, type LastValidVersions, NO_LAST_VALID } from '../../watch/last-valid-versions.ts';
import { NO_CACHE, parseManifest } from '../../watch/read-file.ts';

const GATEWAY = `
apiVersion: nodewall.io/v1alpha1
kind: EgressGateway
metadata: {name: out}
spec: {nodeSelector: {matchLabels: {node-restriction.kubernetes.io/egress: "yes"}}, allowedNamespaces: {}}
`;
const policy = (spec: string): string => `
apiVersion: nodewall.io/v1alpha1
kind: EgressPolicy
metadata: {name: pay, namespace: shop}
spec: ${spec}
`;
const POD = `
apiVersion: v1
kind: Pod
metadata: {name: proxy, namespace: shop}
spec: {hostNetwork: true, nodeName: cp-1}
`;
const NODE = `
apiVersion: v1
kind: Node
metadata: {name: cp-1, uid: u-1}
spec: {podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24, bad]}
status: {addresses: [{type: ExternalIP, address: 198.51.100.1}, {type: InternalIP, address: 192.0.2.1}]}
`;

function read(
  documents: readonly string[],
  egress: boolean,
  lastValidVersions: LastValidVersions = NO_LAST_VALID,
): Assembled {
  const bytes = Buffer.from(documents.join('---'));
  const { content } = parseManifest('m.yaml', { bytes }, NO_CACHE, { egress });
  return assemble({ contents: [content], lastValidVersions, unreadable: [], lastValid: () => undefined });
}

const lines = ({ problems }: Assembled): string[] => problems.map(formatProblem);
const inForce = ({ objects }: Assembled): (string | undefined)[] =>
  objects.egressPolicies.map(({ spec }) => spec.gateway);

describe('manifests of egress gateways', () => {
  it('are not read with the feature gate off, and nothing else is read otherwise', () => {
    const { objects, ...rest } = read([GATEWAY, POD, NODE], false);
    assert.deepEqual(lines({ objects, ...rest }), [
      'm.yaml:2: EgressGateway/out: notice: is not read: the feature gate EgressGateway is off',
    ]);
    assert.deepEqual(objects.egressGateways, []);
    // An endpoint of a Service may be such a pod.
    assert.deepEqual(
      objects.pods.map(({ hostNetwork, node }) => [hostNetwork, node]),
      [[true, undefined]],
    );
    const addresses = ['198.51.100.1', '192.0.2.1'];
    const node = { kind: 'Node', name: 'cp-1', labels: {}, addresses, podCIDRs: ['10.244.1.0/24'] };
    assert.deepEqual(objects.nodes, [node]);
  });

  it('need more of Nodes and pods', () => {
    const assembled = read([POD, NODE], true);
    assert.deepEqual(lines(assembled), [
      'm.yaml:10: Node/cp-1: spec.podCIDRs[1]: warning: "bad" is not a valid CIDR; it is left out, so traffic to these pods may be steered',
    ]);
    const [[pod], [node]] = [assembled.objects.pods, assembled.objects.nodes];
    assert.deepEqual([pod?.addresses, pod?.node, pod?.hostNetwork], [[], 'cp-1', true]);
    assert.deepEqual(
      [node?.internalAddresses, node?.uid, node?.podCIDRs],
      [['192.0.2.1'], 'u-1', ['10.244.1.0/24']],
    );
  });

  it('that are invalid keep their last valid version', () => {
    const before = read([GATEWAY, policy('{appliedTo: [{podSelector: {}}], gateway: out}')], true);
    assert.deepEqual(lines(before), []);
    const after = read([GATEWAY, policy('{appliedTo: []}')], true, before.lastValidVersions);
    assert.deepEqual(inForce(after), ['out']);
    assert.match(lines(after).join(), /^m\.yaml:10: EgressPolicy\/shop\/pay: spec\.appliedTo: is empty/);
  });

  it('stay in force, and fail closed, where only other objects make them wrong', () => {
    const before = read([GATEWAY, policy('{appliedTo: [{podSelector: {}}], gateway: out}')], true);
    const after = read(
      [GATEWAY, policy('{appliedTo: [{podSelector: {}}], gateway: other}')],
      true,
      before.lastValidVersions,
    );
    assert.deepEqual(inForce(after), ['other']);
    assert.match(lines(after).join(), /spec\.gateway: there is no EgressGateway "other"/);
    const gone = read(
      [policy('{appliedTo: [{podSelector: {}}], gateway: out}')],
      true,
      after.lastValidVersions,
    );
    assert.deepEqual([inForce(gone), gone.objects.egressGateways], [['out'], []]);
  });

  it('that were saved are forgotten where the gate is off', () => {
    const { lastValidVersions } = read([GATEWAY], true);
    const json = { version: 1, remembered: [...lastValidVersions.values()] };
    assert.deepEqual(fromLastValidJson(json, true), lastValidVersions);
    assert.deepEqual(fromLastValidJson(json, false), NO_LAST_VALID);
  });

  it('that a later version saved are forgotten if they have a field that this one does not know', () => {
    const [saved] = read([policy('{appliedTo: [{podSelector: {}}]}')], true).objects.egressPolicies;
    const json = (more: object): unknown => ({
      version: 1,
      remembered: [{ file: 'm.yaml', object: { ...saved, spec: { ...saved?.spec, ...more } } }],
    });
    assert.equal(fromLastValidJson(json({}), true).size, 1);
    assert.equal(fromLastValidJson(json({ ports: [443] }), true).size, 0);
  });
});
