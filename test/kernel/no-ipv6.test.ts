/** Rules on a machine on which IPv6 is off for every interface (disable_ipv6=1). */

import assert from 'node:assert/strict';
import { addressPlan, CLIENT_INTERFACE } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { policy, tcp } from './manifests.ts';

const PLAN = addressPlan({ clients: 1, nodeAddresses: 1, addressesPerClient: 1, groups: [0] });
const [OWN = { v4: '', v6: '' }] = PLAN.nodeAddresses;
const [CLIENT = OWN] = PLAN.clientAddresses;
const [OPEN, CLOSED] = [22_001, 22_002];

/** Sees the packets that are behind all rules. */
const OBSERVER = `table ip seen {
  set ports { type inet_service; flags dynamic; }
  chain input { type filter hook input priority 200;
    tcp dport { ${OPEN}, ${CLOSED} } add @ports { tcp dport }
  }
}
`;

forEachDataplane(
  'without IPv6',
  (dataplane) => {
    let it_: EnforcedNode;

    before(async () => {
      it_ = await createEnforcedNode(PLAN, dataplane);
      for (const which of ['all', 'default'])
        await it_.topology.node.run(['sysctl', '-w', `net.ipv6.conf.${which}.disable_ipv6=1`]);
      await it_.nft(OBSERVER);
    });
    after(() => it_?.close());

    async function arrived(): Promise<readonly number[]> {
      const [client = assert.fail()] = it_.topology.clients;
      await it_.topology.node.run(['conntrack', '-F']);
      await it_.nft('flush set ip seen ports\n');
      const lines = [OPEN, CLOSED].map((dstPort, id) =>
        JSON.stringify({ id, src: CLIENT.v4, dst: OWN.v4, protocol: 6, srcPort: 40_000 + id, dstPort }),
      );
      const argv = [await probeProgram(), 'send', '--wait', '50', '--interface', CLIENT_INTERFACE];
      const { stdout } = await client.run(argv, { stdin: `${lines.join('\n')}\n` });
      assert.doesNotMatch(stdout, /"errno"/);
      const seen = (await it_.topology.node.run(['nft', 'list', 'set', 'ip', 'seen', 'ports'])).stdout;
      return [OPEN, CLOSED].filter((port) => seen.includes(String(port)));
    }

    it('the rules of IPv4 are in force, with peers of both families', async () => {
      const { stdout } = await it_.topology.node.run(['ip', '-6', 'address']);
      assert.equal(stdout, '');
      assert.deepEqual(await arrived(), [OPEN, CLOSED], 'without rules');
      const from = [{ ipBlock: { cidr: `${CLIENT.v4}/32` } }, { ipBlock: { cidr: 'fd00::/8' } }];
      const ingress = [
        { name: 'open', action: 'Allow', from, ports: [tcp(OPEN)] },
        { name: 'rest', action: 'Drop' },
      ] as const;
      await it_.write('policy.json', [policy('nodes', { ingress })]);
      const agent = it_.start();
      await it_.untilEnforced(String(OPEN), agent);
      assert.deepEqual(await arrived(), [OPEN]);
      assert.doesNotMatch(agent.log(), /"level":"error"/);
    });
  },
  EITHER_IPTABLES,
);
