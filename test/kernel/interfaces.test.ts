/**
 * Interfaces get into their link groups by what they are, at once, and what follows from that for
 * packets.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EITHER_IPTABLES, forEachDataplane, itForAny, NFTABLES } from './dataplane.ts';
import type { RunningAgent } from './enforced-node.ts';
import { createInterfaceNode, type InterfaceNode, reaches, SHIPPED_NAMES, serve } from './interfaces.ts';
import { policy } from './manifests.ts';
import { pause, until } from './until.ts';

/** Milliseconds; figures are in perf/results. This one only fails where something hangs. */
const GENEROUS = 10_000;
const BURST = 200;

forEachDataplane(
  'interface groups',
  (dataplane) => {
    const itOnce = itForAny(dataplane);
    let it_: InterfaceNode;
    let agent: RunningAgent;
    beforeEach(async () => {
      it_ = await createInterfaceNode(dataplane);
    });
    afterEach(() => it_?.close());

    const addPod = async (veth: string, pod: string, ...more: readonly string[]) => {
      const { pid } = await it_.pod(pod);
      await it_.ip(`link add ${veth} type veth peer name eth0 netns ${pid}`, ...more);
    };

    it('an egress deny closes everything but local pods', async () => {
      const deny = policy('deny', { egress: [{ name: 'all', action: 'Drop' }] });
      await it_.node.write('deny.json', [deny]);
      agent = await it_.start();
      await addPod(
        'veth1',
        'pod',
        'link set lo up',
        'link set veth1 up',
        'addr add 10.90.0.10/32 dev lo',
        'route add 10.244.0.2 dev veth1 src 10.90.0.10',
      );
      await serve(await it_.pod('pod'));
      assert.ok((await it_.untilGroup('veth1', 8, agent)) < GENEROUS);
      assert.equal(await reaches(it_.namespace), true, 'exempt');

      // Somebody else's group is respected: no exemption.
      await it_.ip('link set veth1 group 5');
      await pause(300);
      assert.equal((await it_.groups()).veth1, 5);
      assert.equal(await reaches(it_.namespace), false, 'host traffic');

      // Nobody's group any more: ours again.
      await it_.ip('link set veth1 group 0');
      await it_.untilGroup('veth1', 8, agent);
      assert.equal(await reaches(it_.namespace), true, 'exempt again');
    });

    itOnce("on a node in a container, its own eth0 is not a pod's, and its egress is policed", async () => {
      const deny = policy('deny', { egress: [{ name: 'all', action: 'Drop' }] });
      await it_.node.write('deny.json', [deny]);
      agent = await it_.start();
      const { pid } = await it_.pod('world');
      await it_.ip(
        `link add eth0 type veth peer name eth0 netns ${pid}`,
        `link add odd type veth peer name eth1 netns ${pid}`,
        'link set lo up',
        'addr add 10.90.0.10/24 dev odd',
        'addr add 10.90.0.10/32 dev eth0',
        'link set eth0 up',
        'link set odd up',
        'route add 10.244.0.2 dev eth0',
      );
      const world = await it_.pod('world');
      await serve(world);
      await world.run(['ip', 'link', 'set', 'eth1', 'up']);
      await it_.untilGroup('odd', 0, agent);
      assert.equal(await reaches(it_.namespace), false);
      const { eth0, odd } = await it_.groups();
      assert.deepEqual([eth0, odd], [0, 0]);
    });

    it("an egress deny holds for a second network, and not for a CNI's bridge", async () => {
      const deny = policy('deny', { egress: [{ name: 'all', action: 'Drop' }] });
      await it_.node.write('deny.json', [deny]);
      await it_.ip('link set lo up', 'addr add 10.90.0.10/32 dev lo');
      await addPod('stor0', 'pod', 'addr add 10.244.0.1/24 dev stor0', 'link set stor0 up');
      await serve(await it_.pod('pod'));
      agent = await it_.start();
      assert.equal((await it_.groups()).stor0, 0);
      assert.equal(await reaches(it_.namespace), false, 'host traffic');
      await it_.ip(
        'link add cni0 type bridge',
        'link set cni0 up',
        'addr flush dev stor0',
        'link set stor0 master cni0',
        'addr add 10.244.0.1/24 dev cni0',
      );
      await it_.untilGroup('stor0', 8, agent);
      await until('the node reaches the pod', () => reaches(it_.namespace), { detail: agent.log });
    });

    for (const [how, undo] of [
      ['cleanup', () => it_.cleanup()],
      ['the feature gate off', () => it_.once({}, '--feature-gates', 'NodeNetworkPolicy=false')],
    ] as const) {
      itOnce(`${how} resets the groups that nodewall set, and no others`, async () => {
        await addPod('veth1', 'pod');
        await addPod('veth2', 'other', 'link set veth2 group 8');
        await it_.once();
        assert.deepEqual(await it_.groups(), { lo: 0, veth1: 8, veth2: 8 });
        assert.match(await it_.names(), /\n8\tpods\n/);
        await undo();
        assert.deepEqual(await it_.groups(), { lo: 0, veth1: 0, veth2: 8 });
        assert.equal(await it_.names(), SHIPPED_NAMES);
        assert.equal(await it_.node.rules(), '');
      });
    }

    // The rest is about groups alone, whatever the rules are.
    if (dataplane !== NFTABLES) return;

    it(`sets the groups of ${BURST} pods at once, made in every way`, async () => {
      agent = await it_.start();
      const pod = await it_.pod('pod');
      const numbers = Array.from({ length: BURST / 4 }, (_, i) => i);
      const here = numbers.flatMap((i) => [
        `link add a${i} type veth peer name b${i} netns ${pod.pid}`,
        // As older CNIs do: both here, then one moves.
        `link add c${i} type veth peer name d${i}`,
        `link set d${i} netns ${pod.pid}`,
        `link add e${i} up type veth peer name f${i} netns ${pod.pid}`,
      ]);
      // As the reference plugins do: from within the pod.
      const there = numbers.map((i) => `link add g${i} type veth peer name h${i} netns ${it_.namespace.pid}`);
      await Promise.all([
        it_.ip(...here),
        pod.run(['ip', '-batch', '-'], { stdin: `${there.join('\n')}\n` }),
      ]);
      const names = numbers.flatMap((i) => [`a${i}`, `c${i}`, `e${i}`, `h${i}`]);
      const allIn = async () => {
        const groups = await it_.groups();
        return names.every((name) => groups[name] === 8);
      };
      const took = await until('all are in group 8', allIn, { detail: agent.log });
      assert.ok(took < GENEROUS, `${took} ms`);
      assert.equal(Object.values(await it_.groups()).filter((group) => group === 8).length, BURST);
    });

    it('keeps a group that a CNI sets, at any time', async () => {
      const { pid } = await it_.pod('pod');
      await it_.ip(`link add early group 5 type veth peer name e netns ${pid}`);
      agent = await it_.start();
      await it_.ip(
        `link add fresh group 6 type veth peer name f netns ${pid}`,
        `link add late type veth peer name l netns ${pid}`,
        'link set late group 7',
        'link set late up',
      );
      await addPod('veth1', 'other');
      await it_.untilGroup('veth1', 8, agent);
      await pause(200);
      const { early, fresh, late } = await it_.groups();
      assert.deepEqual([early, fresh, late], [5, 6, 7]);
    });

    it('classifies a bridge by its ports', async () => {
      agent = await it_.start();
      await addPod(
        'veth1',
        'pod',
        'link add br7 type bridge',
        'link add nic type veth peer name nicp',
        'link add cni0 type bridge',
      );
      await it_.untilGroup('cni0', 8, agent);
      assert.equal((await it_.groups()).br7, 0);
      await it_.ip('link set veth1 master br7');
      await it_.untilGroup('br7', 8, agent);
      await it_.ip('link set nic master br7');
      await it_.untilGroup('br7', 0, agent);
      await it_.ip('link set nic nomaster');
      await it_.untilGroup('br7', 8, agent);
      await it_.ip('link del veth1');
      await it_.untilGroup('br7', 0, agent);
    });

    it('follows addresses and routes: an interface with its own is no pod’s', async () => {
      agent = await it_.start();
      await addPod('veth1', 'pod', 'link set veth1 up', 'link add br7 type bridge', 'link set br7 up');
      await it_.untilGroup('veth1', 8, agent);
      for (const [add, remove] of [
        ['addr add 10.2.0.1/24 dev veth1', 'addr flush dev veth1'],
        ['addr add fd00:2::1/64 dev veth1 nodad', 'addr flush dev veth1'],
        ['addr add 10.2.0.1 peer 10.2.0.2 dev veth1', 'addr flush dev veth1'],
        ['route add default dev veth1', 'route del default dev veth1'],
        ['route add 10.3.0.0/16 dev veth1 table 77', 'route del 10.3.0.0/16 table 77'],
        ['route add fd00:3::/64 dev veth1', 'route del fd00:3::/64 dev veth1'],
        ['route add 10.3.0.1/32 via inet6 fe80::7 dev veth1', 'route del 10.3.0.1/32 dev veth1'],
      ] as const) {
        await it_.ip(add);
        await it_.untilGroup('veth1', 0, agent);
        await it_.ip(remove);
        await it_.untilGroup('veth1', 8, agent);
      }
      await it_.ip('link set veth1 master br7');
      await it_.untilGroup('br7', 8, agent);
      await it_.ip('addr add 10.2.0.1/24 dev br7');
      await it_.untilGroup('br7', 0, agent);
      await it_.untilGroup('veth1', 0, agent);
      await agent.end('SIGTERM');
      agent = await it_.start({
        interfaceGroups: { pods: 8, clusternet: 9, storage: { group: 20, match: ['br*'] } },
      });
      await it_.untilGroup('br7', 20, agent);
      const table = await it_.interfaces(await it_.config());
      assert.match(
        table,
        /^veth1 .* no group: is a port of an interface that has an address or a route of its own/m,
      );
    });

    it('takes a veth for a pod’s whose address is that of ptp', async () => {
      agent = await it_.start();
      await addPod('veth1', 'pod', 'link set veth1 up', 'addr add 10.244.0.1/32 dev veth1');
      await it_.untilGroup('veth1', 0, agent);
      await it_.ip('route add 10.244.0.5/32 dev veth1 scope host');
      await it_.untilGroup('veth1', 8, agent);
      await it_.ip('route del 10.244.0.5/32 dev veth1', 'addr add fd00::1/128 dev veth1 nodad');
      await it_.untilGroup('veth1', 0, agent);
      await addPod(
        'veth2',
        'other',
        'addr add 10.244.0.1/32 dev veth2',
        'addr add fd00::1/128 dev veth2 nodad',
        'link set veth2 up',
      );
      await it_.untilGroup('veth2', 8, agent);
      await it_.untilGroup('veth1', 8, agent);
    });

    it('keeps its groups over a restart, follows a new number, and leaves them on stop', async () => {
      agent = await it_.start();
      await addPod('veth1', 'pod', 'link add vxlan.calico type vxlan id 1 dstport 4789');
      await addPod('veth2', 'other', 'link set veth2 group 30');
      await it_.untilGroup('veth1', 8, agent);
      await it_.untilGroup('vxlan.calico', 9, agent);
      await agent.end('SIGTERM');
      assert.equal((await it_.groups()).veth1, 8);
      agent = await it_.start({ interfaceGroups: { pods: { group: 20 }, clusternet: 9 } });
      await it_.untilGroup('veth1', 20, agent);
      const groups = await it_.groups();
      assert.deepEqual([groups.veth2, groups['vxlan.calico']], [30, 9]);
      // The file is written beside the groups.
      const named = /\n20\tpods\n9\tclusternet\n/;
      await until('the new number has the name', async () => named.test(await it_.names()), {
        detail: () => agent?.log() ?? '',
      });
    });

    it('recognizes its own groups after kill -9', async () => {
      agent = await it_.start();
      await addPod('veth1', 'pod');
      await it_.untilGroup('veth1', 8, agent);
      const saved = () => readFile(join(it_.node.stateDir, 'interfaces.json'), 'utf8').catch(() => '');
      await until('the agent has saved it', async () => (await saved()).includes('veth1'));
      await agent.end('SIGKILL');
      await it_.once();
      await it_.cleanup();
      assert.equal((await it_.groups()).veth1, 0);
    });

    it('nodewall interfaces prints groups and reasons without any permission', async () => {
      await addPod('veth1', 'pod', 'link add nic type veth peer name nicp', 'link add cni0 type bridge');
      await addPod('veth2', 'other', 'link set veth2 group 30');
      const config = await it_.config();
      const before = await it_.interfaces(config);
      assert.match(before, /^veth1 +\d+ +veth +0 +kind:veth: .* would set 8 pods$/m);
      assert.match(before, /^veth2 +\d+ +veth +30 +set by a third party$/m);
      await it_.once();
      const after = await it_.interfaces(config);
      assert.match(after, /^veth1 +\d+ +veth +8 pods +kind:veth: its other end is in another namespace$/m);
      assert.match(after, /^cni0 +\d+ +bridge +8 pods +cni:\*: named as flannel does$/m);
      assert.match(after, /^nic +\d+ +veth +0 +no group: host traffic, exemptions don't apply$/m);
      assert.match(after, /^lo +1 +- +0 +loopback$/m);
      // Neither what the agent saved nor a configuration can be read: what is in its group is taken
      // to be its work.
      const unprivileged = await it_.interfaces([], ['setpriv', '--reuid=65534', '--clear-groups', '--']);
      assert.equal(unprivileged, after);
      const rows = JSON.parse(await it_.interfaces([...config, '-o', 'json']));
      assert.deepEqual(
        rows.map(({ name, group, groupName, wanted }: Record<string, unknown>) => [
          name,
          group,
          groupName,
          wanted,
        ]),
        [
          ['lo', 0, null, null],
          ['veth1', 8, 'pods', null],
          ['nicp', 0, null, null],
          ['nic', 0, null, null],
          ['cni0', 8, 'pods', null],
          ['veth2', 30, null, null],
        ],
      );
    });

    it('enforces the rules without permission to set groups', async () => {
      await it_.once();
      await addPod('veth1', 'pod');
      const command = ['setpriv', '--bounding-set=-net_admin', '--inh-caps=-net_admin', '--'];
      const { status, stderr } = await it_.agentOnce(command);
      assert.equal(status, 3);
      assert.match(stderr, /cannot set the group of the interface; this needs root/);
    });
  },
  EITHER_IPTABLES,
);
