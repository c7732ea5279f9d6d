/**
 * A node with an interface in a VRF, under a default deny: the kernel shows what the node sends
 * there twice, and it is judged once, by the second time.
 */
import assert from 'node:assert/strict';
import type { Namespace } from '../netns/namespace.ts';
import { EITHER_IPTABLES, forEachDataplane, NFTABLES } from './dataplane.ts';
import { createInterfaceNode, type InterfaceNode } from './interfaces.ts';
import { INSIDE } from './link-kinds.ts';
import { cidr, policy, tcp } from './manifests.ts';
import { connects, listen } from './talk.ts';

/** For the peer, for the node itself, and for nobody. */
const [OPEN, OWN, CLOSED] = [9001, 9002, 9003];
const FAMILIES = [4, 6] as const;
const own = FAMILIES.map((family) => INSIDE[family].node);
const LACKING = /Unknown device type|not supported/i;

/** How the kernel shows what leaves in the VRF, and what of it the rules let out. */
const OBSERVER = `table inet seen {
  chain before { type filter hook output priority -10;
    meta oifkind "vrf" ct state untracked meta l4proto tcp counter comment "first"
    oifname "eth1" ct state != untracked meta l4proto tcp counter comment "second"
  }
  chain after { type filter hook postrouting priority 200;
    oifname "eth1" tcp dport ${CLOSED} counter comment "closed"
    oifname "eth1" tcp dport ${OPEN} counter comment "open"
  }
}
`;
/** As another program may leave the node's packets to itself untracked. */
const NOTRACK = `table inet nwnotrack {
  chain out { type filter hook output priority raw; tcp dport { ${OWN}, ${CLOSED} } notrack; }
}
`;
/** As another program may mark what the node sends: the kernel then looks for its way anew. */
const MARK = `table inet nwmark {
  chain out { type route hook output priority mangle; tcp dport ${CLOSED} meta mark set 7; }
}
`;

forEachDataplane(
  'packets of a VRF',
  (dataplane) => {
    let it_: InterfaceNode;
    let peer: Namespace;

    before(async function () {
      it_ = await createInterfaceNode(dataplane);
      peer = await it_.pod('peer');
      try {
        await it_.ip('link add vrf7 type vrf table 7', 'link add vrf8 numtxqueues 2 type vrf table 8');
      } catch (error) {
        if (!LACKING.test(String(error))) throw error;
        process.stderr.write('skipped: packets of a VRF: this kernel has none\n');
        this.skip();
      }
      await it_.ip(
        'link set lo up',
        'link set vrf7 up',
        'link set vrf8 up',
        `link add eth1 type veth peer name eth1 netns ${peer.pid}`,
      );
      const lines = [
        'link set eth1 up',
        `addr add ${INSIDE[4].peer}/24 dev eth1`,
        `addr add ${INSIDE[6].peer}/64 dev eth1 nodad`,
      ];
      await peer.run(['ip', '-batch', '-'], { stdin: `${lines.join('\n')}\n` });
      await it_.ip(`addr add ${INSIDE[4].node}/24 dev eth1`);
      // What is not bound to a VRF hears from it too, and finds its way into it.
      await it_.namespace.run(['sysctl', '-qw', 'net.ipv4.tcp_l3mdev_accept=1']);
      for (const family of FAMILIES)
        await it_.namespace.run(['ip', `-${family}`, ...'rule add pref 5 iif lo lookup 7'.split(' ')]);
      await putInto('vrf7');
      await listen(it_.namespace, [OPEN, OWN, CLOSED]);
      await listen(peer, [OPEN, CLOSED]);
      await it_.node.nft(OBSERVER);
      await it_.node.write('deny.json', DENY);
    });
    after(() => it_?.close());

    /** Moves the interface; the kernel takes its IPv6 addresses away. */
    async function putInto(vrf: string): Promise<void> {
      await it_.ip(
        `link set eth1 master ${vrf}`,
        'link set eth1 up',
        `addr replace ${INSIDE[6].node}/64 dev eth1 nodad`,
      );
    }

    const answers = (from: Namespace, hosts: readonly string[], port: number): Promise<boolean[]> =>
      Promise.all(hosts.map((host) => connects(from, host, port)));
    const peers = FAMILIES.map((family) => INSIDE[family].peer);

    it('are judged once: services answer, and nothing leaves that no rule allows', async () => {
      await it_.once({}, '--strict');
      assert.deepEqual(await answers(peer, own, OPEN), [true, true]);
      assert.deepEqual(await answers(peer, own, CLOSED), [false, false]);
      assert.deepEqual(await answers(it_.namespace, peers, OPEN), [true, true]);
      const before = await seen();
      assert.ok(before.first > 0 && before.second > 0 && before.open > 0, JSON.stringify(before));
      assert.deepEqual(await answers(it_.namespace, peers, CLOSED), [false, false]);
      const after = await seen();
      assert.ok(after.first > before.first && after.second > before.second, 'the kernel showed them');
      assert.equal(after.closed, 0);
    });

    it('are judged in both directions between addresses of the node', async () => {
      await it_.once({}, '--strict');
      // By the routing rule above addrtype finds the IPv6 address: to iptables it is a spoofed one.
      const heard = dataplane === NFTABLES;
      assert.deepEqual(await answers(it_.namespace, own, OWN), [true, heard]);
      assert.deepEqual(await answers(it_.namespace, own, CLOSED), [false, false]);
      // They are shown once, as the others are the first time.
      await it_.node.nft(NOTRACK);
      try {
        assert.deepEqual(await answers(it_.namespace, own, CLOSED), [false, false]);
      } finally {
        await it_.node.nft('delete table inet nwnotrack\n');
      }
    });

    it('do not leave unjudged where another table marks them, nor where the device is down besides', async () => {
      const before = await seen();
      await it_.node.nft(MARK);
      try {
        for (const state of ['up', 'down']) {
          await it_.ip(`link set vrf7 ${state}`);
          await it_.once({}, '--strict');
          assert.deepEqual(await answers(it_.namespace, peers, CLOSED), [false, false]);
          assert.equal((await seen()).closed, before.closed, state);
        }
      } finally {
        await it_.node.nft('delete table inet nwmark\n');
        await it_.ip('link set vrf7 up');
      }
    });

    if (dataplane === NFTABLES) {
      it('are judged the first time too without the exemption loopback', async () => {
        await it_.once({ exemptions: { loopback: false } }, '--strict');
        assert.deepEqual(await answers(peer, own, OPEN), [false, false]);
      });

      it('are judged the first time too where the device has a queue', async () => {
        await putInto('vrf8');
        try {
          await it_.once({}, '--strict');
          assert.deepEqual(await answers(peer, [INSIDE[4].node], OPEN), [false]);
        } finally {
          await putInto('vrf7');
        }
      });

      it('are accepted the first time by a VRF that is made while an agent runs', async () => {
        const agent = await it_.start();
        try {
          await it_.ip('link add red type vrf table 7', 'link set red up');
          await it_.node.untilEnforced('red', agent);
          await it_.ip('link del red');
        } finally {
          await agent.end('SIGTERM');
        }
      });
    }

    async function seen(): Promise<Record<'first' | 'second' | 'closed' | 'open', number>> {
      const { stdout } = await it_.namespace.run(['nft', 'list', 'table', 'inet', 'seen']);
      const of = (name: string): number =>
        Number(new RegExp(`packets (\\d+) bytes \\d+ comment "${name}"`).exec(stdout)?.[1]);
      return { first: of('first'), second: of('second'), closed: of('closed'), open: of('open') };
    }
  },
  EITHER_IPTABLES,
);

const from = (end: 'node' | 'peer') =>
  FAMILIES.map((family) => cidr(`${INSIDE[family][end]}/${family === 4 ? 32 : 128}`));
const allow = (name: string, peers: object, port: number) =>
  ({ name, action: 'Allow', ...peers, ports: [tcp(port)] }) as const;
const DENY = [
  policy('in', {
    ingress: [
      allow('open', { from: from('peer') }, OPEN),
      allow('own', { from: from('node') }, OWN),
      { name: 'rest', action: 'Drop' },
    ],
  }),
  policy('out', {
    egress: [
      allow('open', { to: from('peer') }, OPEN),
      allow('own', { to: from('node') }, OWN),
      { name: 'rest', action: 'Drop' },
    ],
  }),
];
