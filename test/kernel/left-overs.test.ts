/** What an earlier run left is gone after the next, and cleanup leaves nothing. */
import assert from 'node:assert/strict';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { everything, installForeignRules } from './foreign-rules.ts';
import { addStaleChains } from './iptables.ts';
import { cidr, policy, tcp } from './manifests.ts';

forEachDataplane(
  'leftovers',
  (dataplane) => {
    let node: EnforcedNode;
    before(async () => {
      node = await createEnforcedNode(undefined, dataplane);
    });
    afterEach(async () => {
      await node?.remove('policy.json');
      await node?.clear();
    });
    after(() => node?.close());

    const variants = dataplane.iptables === null ? [] : [dataplane.iptables];
    const listAll = async () => (await everything(node.topology.node, variants)).join('\n');

    async function addStale(): Promise<void> {
      if (dataplane.iptables === null) {
        await node.nft('add chain inet nodewall stale\nadd rule inet nodewall stale tcp dport 7 drop\n');
        await node.nft('add set inet nodewall stale { type ipv6_addr; elements = { 2001:db8::1 }; }\n');
      } else await addStaleChains(node.topology.node, dataplane.iptables);
    }

    it("the first apply removes members, chains and rules of an earlier run, and foreign ones in nodewall's table", async () => {
      await node.write('policy.json', [sample(2, 5)]);
      await node.again();
      const fresh = await node.rules();
      await node.clear();
      await node.write('policy.json', [sample(1, 30), sample(3, 7)]);
      await node.again();
      await addStale();
      await node.write('policy.json', [sample(2, 5)]);
      await node.again();
      assert.equal(await node.rules(), fresh);
    });

    it('agent --once twice gives the same text', async () => {
      await node.write('policy.json', [sample(1, 10), sample(2, 5)]);
      await node.again();
      const first = await node.rules();
      await node.again();
      assert.equal(await node.rules(), first);
      assert.notEqual(first, '');
    });

    it('without policies nothing is closed, and closed ports are open again', async () => {
      await node.write('policy.json', [sample(1, 10)]);
      await node.again();
      assert((await node.rules()).includes('192.0.2.'));
      await node.write('policy.json', []);
      await node.again();
      assert(!(await node.rules()).includes('192.0.2.'));
    });

    it('the feature gate off removes all rules', async () => {
      await node.write('policy.json', [sample(1, 10)]);
      await node.again();
      await node.again('--feature-gates', 'NodeNetworkPolicy=false');
      assert.equal(await listAll(), '');
    });

    it('cleanup removes everything of nodewall and nothing else', async () => {
      // Last, as these rules stay.
      await installForeignRules(node.topology.node, [dataplane]);
      const before = await listAll();
      await node.write('policy.json', [sample(1, 10)]);
      await node.again();
      assert.notEqual(await listAll(), before);
      await node.cleanup();
      assert.equal(await listAll(), before);
      await node.cleanup();
      assert.equal(await listAll(), before);
    });
  },
  EITHER_IPTABLES,
);

/** A policy whose sets have `members` addresses and as many prefixes. */
function sample(n: number, members: number): object {
  const hosts = Array.from({ length: members }, (_, i) => cidr(`192.0.2.${n * 50 + i}/32`));
  const nets = Array.from({ length: members }, (_, i) => cidr(`10.${n * 50 + i}.0.0/17`));
  return policy(`sample-${n}`, {
    priority: n,
    ingress: [
      { name: 'hosts', action: 'Allow', from: hosts, ports: [tcp(22)] },
      { name: 'both', action: 'Reject', from: [...hosts, ...nets], ports: [tcp(100 * n, 100 * n + 50)] },
    ],
    egress: [{ name: 'nets', action: 'Drop', to: nets }],
  });
}
