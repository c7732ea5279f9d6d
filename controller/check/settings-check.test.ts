import assert from 'node:assert/strict';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { clusterNetworks } from './settings-check.ts';

const NODES = [1, 2, 3, 5, 9].map((n) => ({
  metadata: { name: `n${n}` },
  spec: { podCIDRs: [`10.244.${n}.0/24`, `fd00:${n}::/64`] },
  status: {
    addresses: [
      { type: 'InternalIP', address: `192.0.2.${n}` },
      { type: 'Hostname', address: `n${n}` },
    ],
  },
}));

async function linesWith(config: string) {
  const answers: Readonly<Record<string, unknown>> = {
    '/api/v1/namespaces/nodewall-system/configmaps/nodewall-config': { data: { 'config.yaml': config } },
    '/api/v1/nodes': { items: NODES },
  };
  const request = (async ({ path }: { readonly path: string }) => answers[path]) as unknown as KubeApi;
  return await clusterNetworks(request);
}

describe('the check of the networks of a cluster', () => {
  it('asks for those of pods and Nodes with egress gateways, as Nodes say them', async () => {
    const [line, ...more] = await linesWith('featureGates: {EgressGateway: true}');
    assert.deepEqual(more, []);
    assert.match(`${line?.state}: ${line?.message}`, /^warning: not set: egress\.podCIDRs, nodeCIDRs; /);
    const pods = 'egress: {podCIDRs: [10.244.0.0/20, fd00::/28]}';
    assert.ok(line?.next?.endsWith(`: ${pods}; nodeCIDRs: [192.0.2.0/24]`), line?.next);
    const [rest] = await linesWith('featureGates: {EgressGateway: true}\nnodeCIDRs: [192.0.2.0/24]');
    assert.match(rest?.message ?? '', /^not set: egress\.podCIDRs; /);
    assert.ok(rest?.next?.endsWith(pods), rest?.next);
  });

  it('has nothing to ask where they are set', async () => {
    const set = 'nodeCIDRs: [192.0.2.0/24]\negress: {podCIDRs: [10.244.0.0/16]}';
    const [line] = await linesWith(`featureGates: {EgressGateway: true}\n${set}`);
    assert.equal(line?.state, 'ok');
    assert.deepEqual(await linesWith('a: ['), []);
  });

  it('asks for those of Nodes without egress gateways, too', async () => {
    const [line, ...more] = await linesWith('featureGates: {EgressGateway: false}');
    assert.deepEqual(more, []);
    assert.match(`${line?.state}: ${line?.message}`, /^warning: not set: nodeCIDRs; a kubelet can claim /);
    assert.ok(line?.next?.endsWith(': nodeCIDRs: [192.0.2.0/24]'), line?.next);
    const [named] = await linesWith('nodeCIDRs: [192.0.2.0/24]');
    assert.equal(named?.state, 'ok');
  });
});
