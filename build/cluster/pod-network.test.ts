import assert from 'node:assert/strict';
import { NODES } from './network.ts';
import { chosenPodNetwork, chosenProxyMode, cniConfiguration, POD_NETWORKS } from './pod-network.ts';

describe('the network of pods', () => {
  it('is chosen by name, and a wrong name is told the known ones', () => {
    assert.equal(chosenPodNetwork({}), 'bridge');
    assert.equal(chosenPodNetwork({ NODEWALL_POD_NETWORK: 'flannel-vxlan' }), 'flannel-vxlan');
    assert.throws(() => chosenPodNetwork({ NODEWALL_POD_NETWORK: 'toString' }), /known are bridge, /);
    assert.equal(chosenProxyMode({}), 'nftables');
    assert.equal(chosenProxyMode({ NODEWALL_PROXY_MODE: 'iptables' }), 'iptables');
    assert.throws(() => chosenProxyMode({ NODEWALL_PROXY_MODE: 'ipvs' }), /known are nftables, iptables$/);
  });

  it('has one plugin for interfaces, then host ports, then those that are asked for', () => {
    const [node] = NODES;
    assert.ok(node !== undefined);
    for (const name of Object.keys(POD_NETWORKS).map((one) =>
      chosenPodNetwork({ NODEWALL_POD_NETWORK: one }),
    )) {
      const { plugin, traffic } = POD_NETWORKS[name];
      const list = JSON.parse(
        JSON.stringify(cniConfiguration(node, name, { traffic, plugins: [{ type: 'last' }] })),
      );
      const types = list.plugins.map(({ type }: { type: string }) => type);
      assert.deepEqual(types, [plugin, 'portmap', 'last']);
      assert.equal(list.plugins[0].ipMasq, traffic === 'masqueraded');
      assert.equal('mtu' in list.plugins[0], false);
    }
  });
});
