/** Packets with the ports of DHCP's answers, from the link and from elsewhere, under a Drop. */

import assert from 'node:assert/strict';
import { addressPlan, CLIENT_INTERFACE } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { policy, tcp } from './manifests.ts';

const PLAN = addressPlan({ clients: 1, nodeAddresses: 1, addressesPerClient: 1, groups: [0] });
const [OWN = { v4: '', v6: '' }] = PLAN.nodeAddresses;
const [CLIENT = OWN] = PLAN.clientAddresses;
/** That of the node on the client's link. */
const LINK_LOCAL = 'fe80::ff:fe00:100';

interface Answer {
  readonly what: string;
  readonly src: string;
  readonly dst: string;
  readonly isAccepted: boolean;
}

const ANSWERS: readonly Answer[] = [
  { what: 'to all of the link', src: CLIENT.v4, dst: '255.255.255.255', isAccepted: true },
  { what: 'to the node, from elsewhere', src: '203.0.113.9', dst: OWN.v4, isAccepted: false },
  { what: 'to the node, from the link', src: CLIENT.v4, dst: OWN.v4, isAccepted: false },
  { what: 'of DHCPv6 on the link', src: 'fe80::77', dst: LINK_LOCAL, isAccepted: true },
  { what: 'of DHCPv6 from elsewhere', src: '2001:db8:9::1', dst: OWN.v6, isAccepted: false },
];

/** Sees the packets that are behind all rules. */
const OBSERVER = `table inet seen {
  set v4 { type ipv4_addr . ipv4_addr; flags dynamic; }
  set v6 { type ipv6_addr . ipv6_addr; flags dynamic; }
  chain input { type filter hook input priority 200;
    udp dport 68 add @v4 { ip saddr . ip daddr }
    udp dport 546 add @v6 { ip6 saddr . ip6 daddr }
  }
}
`;

forEachDataplane(
  'answers of DHCP',
  (dataplane) => {
    let it_: EnforcedNode;

    before(async () => {
      it_ = await createEnforcedNode(PLAN, dataplane);
      await it_.nft(OBSERVER);
    });
    after(() => it_?.close());

    async function arrived(): Promise<string[]> {
      const [client = assert.fail()] = it_.topology.clients;
      await it_.topology.node.run(['conntrack', '-F']);
      await it_.nft('flush set inet seen v4; flush set inet seen v6\n');
      const lines = ANSWERS.map(({ src, dst }, id) => {
        const [srcPort, dstPort] = src.includes(':') ? [547, 546] : [67, 68];
        return JSON.stringify({ id, src, dst, protocol: 17, srcPort, dstPort });
      });
      const argv = [await probeProgram(), 'send', '--wait', '50', '--interface', CLIENT_INTERFACE];
      const { stdout } = await client.run(argv, { stdin: `${lines.join('\n')}\n` });
      assert.doesNotMatch(stdout, /"errno"/);
      const list = (set: string) => it_.topology.node.run(['nft', 'list', 'set', 'inet', 'seen', set]);
      const seen = (await Promise.all(['v4', 'v6'].map(list))).map((one) => one.stdout).join();
      return ANSWERS.filter(({ src, dst }) => seen.includes(`${src} . ${dst}`)).map(({ what }) => what);
    }

    it('are accepted at destinations that no router forwards to, and judged elsewhere', async () => {
      assert.deepEqual(
        await arrived(),
        ANSWERS.map(({ what }) => what),
        'without rules',
      );
      const marker = 21_001;
      const ingress = [
        { name: 'marker', action: 'Allow', ports: [tcp(marker)] },
        { name: 'rest', action: 'Drop' },
      ] as const;
      await it_.write('policy.json', [policy('nodes', { ingress })]);
      const agent = it_.start();
      await it_.untilEnforced(String(marker), agent);
      const accepted = ANSWERS.filter(({ isAccepted }) => isAccepted).map(({ what }) => what);
      assert.deepEqual(await arrived(), accepted);
    });
  },
  EITHER_IPTABLES,
);
