import assert from 'node:assert/strict';
import { DEFAULT_CONFIG, type FailsafeEntry } from '../../apis/config.ts';
import {
  type ClusterNetworkPolicy,
  type ClusterNetworkPolicySpec,
  type EndpointSlice,
  NO_OBJECTS,
  type Node,
  type Pod,
  type Rule,
  type Service,
} from '../../apis/objects.ts';
import { type PodAccessObjects, podAccessWarnings } from './pod-access.ts';

const node = (name: string, address: string, role: string, ...podCIDRs: string[]): Node => {
  const labels = { [`node-role.kubernetes.io/${role}`]: '' };
  return { kind: 'Node', name, labels, addresses: [address], podCIDRs };
};
const CP = node('cp-1', '192.0.2.1', 'control-plane', '10.244.0.0/24', 'fd00:244::/64');
const WORKER = node('worker-1', '192.0.2.2', 'worker', '10.244.1.0/24', 'fd00:244:0:1::/64');
const CLUSTER: PodAccessObjects = { ...NO_OBJECTS, nodes: [CP, WORKER] };

const everywhere = [{ nodeSelector: {} }];
const from = (...cidrs: string[]) => cidrs.map((cidr) => ({ ipBlock: { cidr } }));
const allow = (ports: Rule['ports'], peers: Rule['from']): Rule => {
  return { action: 'Allow', ...(ports && { ports }), ...(peers && { from: peers }) };
};
const API = [{ port: 6443 }];
const DROP: Rule = { action: 'Drop' };
const PODS = from('10.244.0.0/16', 'fd00:244::/48');

function policy(
  ingress: readonly Rule[],
  spec: Partial<ClusterNetworkPolicySpec> = {},
  name = 'p',
): ClusterNetworkPolicy {
  const whole = { priority: 5, appliedTo: everywhere, ingress, ...spec };
  return { kind: 'ClusterNetworkPolicy', apiGroup: 'nodewall.io', name, uid: '', generation: 1, spec: whole };
}

function warnings(
  ingress: readonly Rule[],
  spec: Partial<ClusterNetworkPolicySpec> = {},
  objects: PodAccessObjects = CLUSTER,
  failsafe: readonly FailsafeEntry[] = DEFAULT_CONFIG.failsafe.ingress,
): string[] {
  return podAccessWarnings(policy(ingress, spec), objects, failsafe);
}

describe('the warning that pods lose the API server', () => {
  it('names the rule, the effect and the remedy', () => {
    const [text, ...more] = warnings([allow(API, [{ nodeSelector: {} }]), DROP]);
    assert.match(
      text ?? '',
      /^spec\.ingress\[1\]: closes the API server \(TCP 6443\) to pods .* 10\.244\.0\.0\/24/,
    );
    assert.match(text ?? '', /unless the CNI masquerades them; .* allow it in a rule before this one/);
    assert.deepEqual(more, []);
  });

  it('is given for each way to close it', () => {
    const closing: readonly (readonly Rule[])[] = [
      [DROP],
      [{ action: 'Reject' }],
      [{ action: 'Drop', ports: API }],
      [{ action: 'Drop', ports: [{ port: 6000, endPort: 7000 }] }],
      [{ action: 'Drop', from: from('10.0.0.0/8') }],
      [{ action: 'Drop', from: from('10.244.1.7/32') }],
      [allow(API, from('10.244.0.0/24', 'fd00:244::/48')), DROP],
      [allow(API, [{ ipBlock: { cidr: '10.244.0.0/16', except: ['10.244.1.128/25'] } }]), DROP],
      [allow([{ port: 443 }], PODS), DROP],
      [allow([{ protocol: 'UDP', port: 6443 }], PODS), DROP],
    ];
    for (const ingress of closing) assert.equal(warnings(ingress).length, 1, JSON.stringify(ingress));
  });

  it('is not given if pods are allowed or the rule is about other traffic', () => {
    const open: readonly (readonly Rule[])[] = [
      [allow(API, PODS), DROP],
      [allow(undefined, PODS), DROP],
      [allow(API, undefined), DROP],
      [allow(API, [{ podSelector: {} }]), DROP],
      [allow(API, [{ interfaceGroup: 'pods' }]), DROP],
      [{ action: 'Drop', ports: [{ port: 22 }] }],
      [{ action: 'Drop', protocols: [{ icmp: {} }] }],
      [{ action: 'Drop', from: [{ podSelector: { matchLabels: { app: 'x' } } }] }],
      [{ action: 'Drop', from: from('203.0.113.0/24') }],
      [],
    ];
    for (const ingress of open) assert.deepEqual(warnings(ingress), [], JSON.stringify(ingress));
    assert.deepEqual(warnings([DROP], { mode: 'Audit' }), []);
    assert.deepEqual(warnings([DROP], { traffic: 'NodePort' }), []);
    const workers = [{ nodeSelector: { matchLabels: { 'node-role.kubernetes.io/worker': '' } } }];
    assert.deepEqual(warnings([DROP], { appliedTo: workers }), []);
    const listed: FailsafeEntry = {
      protocol: 'tcp',
      ports: [6443, 6443],
      peers: ['10.0.0.0/8', 'fd00::/16'],
    };
    assert.deepEqual(warnings([DROP], {}, CLUSTER, [listed]), []);
  });

  it('considers earlier policies that allow or already close it', () => {
    const before = (ingress: readonly Rule[], spec: Partial<ClusterNetworkPolicySpec> = {}) => {
      return warnings([DROP], {}, { ...CLUSTER, policies: [policy(ingress, { priority: 1, ...spec }, 'a')] });
    };
    assert.deepEqual(before([allow(API, PODS)]), []);
    assert.deepEqual(before([{ ...DROP }]), [], 'that is its own warning');
    assert.deepEqual(before([{ action: 'Pass' }]), [], 'only the baseline tier goes on');
    assert.equal(before([allow(API, PODS)], { priority: 9 }).length, 1, 'it comes after');
    assert.equal(before([allow(API, PODS)], { mode: 'Audit' }).length, 1);
  });

  it("finds the API server's Nodes and ports by its endpoints, if these are known", () => {
    const slice: EndpointSlice = {
      kind: 'EndpointSlice',
      namespace: 'default',
      name: 'kubernetes',
      service: 'kubernetes',
      addresses: ['192.0.2.2'],
      ports: [{ protocol: 'TCP', port: 7443 }],
    };
    const objects = { ...CLUSTER, endpointSlices: [slice] };
    const onlyCp = [{ nodeSelector: { matchLabels: { 'node-role.kubernetes.io/control-plane': '' } } }];
    assert.deepEqual(warnings([DROP], { appliedTo: onlyCp }, objects), []);
    assert.match(warnings([DROP], {}, objects).join(), /TCP 7443/);
    assert.deepEqual(warnings([{ action: 'Drop', ports: API }], {}, objects), []);
  });

  it('uses known pods if Nodes have no pod CIDRs, and warns about nothing without either', () => {
    const plain = [CP, WORKER].map(({ podCIDRs: _, ...one }) => one);
    const pod: Pod = {
      kind: 'Pod',
      namespace: 'shop',
      name: 'a',
      labels: {},
      serviceAccount: 'default',
      addresses: ['10.9.0.1'],
    };
    const own = { ...pod, namespace: 'nodewall-system', serviceAccount: 'nodewall-controller' };
    assert.deepEqual(warnings([DROP], {}, { ...CLUSTER, nodes: plain }), []);
    assert.deepEqual(warnings([DROP], {}, { ...CLUSTER, nodes: plain, pods: [own] }), []);
    assert.match(warnings([DROP], {}, { ...CLUSTER, nodes: plain, pods: [own, pod] }).join(), /10\.9\.0\.1/);
  });
});

describe('the warning that pods lose NodeLocal DNSCache', () => {
  const cache: Service = {
    kind: 'Service',
    namespace: 'kube-system',
    name: 'kube-dns-upstream',
    selector: null,
    clusterIPs: [],
    ports: [],
  };
  const objects = { ...CLUSTER, services: [cache] };
  const api = allow(API, PODS);

  it('is given where the cluster has it, and no rule allows it', () => {
    assert.deepEqual(warnings([api, DROP]), []);
    const [text, ...more] = warnings([api, DROP], {}, objects);
    assert.match(
      text ?? '',
      /^spec\.ingress\[1\]: closes NodeLocal DNSCache \(UDP 53\) .* 10\.244\.0\.0\/24/,
    );
    assert.deepEqual(more, []);
    assert.match(warnings([api, allow([{ port: 53 }], PODS), DROP], {}, objects).join(), /DNSCache/);
    const dns = [{ protocol: 'UDP', port: 53 }, { port: 53 }] as const;
    assert.deepEqual(warnings([api, allow(dns, PODS), DROP], {}, objects), []);
    const listed = [{ protocol: 'udp', ports: [53, 53], peers: 'any' }] as const;
    assert.deepEqual(warnings([api, DROP], {}, objects, listed), []);
  });

  it('is given on each Node, not only those of the API server', () => {
    const appliedTo = [{ nodeSelector: { matchLabels: { 'node-role.kubernetes.io/worker': '' } } }];
    assert.match(
      warnings([DROP], { appliedTo }, objects).join(),
      /^spec\.ingress\[0\]: closes NodeLocal DNSCache/,
    );
  });
});
