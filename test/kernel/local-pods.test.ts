/**
 * What a node sends to its own pods by way of a Service's address is exempt, as what it sends there
 * straight.
 */
import assert from 'node:assert/strict';
import type { Namespace } from '../netns/namespace.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import type { RunningAgent } from './enforced-node.ts';
import { createInterfaceNode, type InterfaceNode } from './interfaces.ts';
import { policy } from './manifests.ts';
import { connects, listen } from './talk.ts';
import { until } from './until.ts';

const PORT = 80;
const POD_PORT = 7777;

/** Each has a Service of its own. */
const PODS = {
  here: { v4: '10.244.0.2', v6: 'fd00:244::2' },
  remote: { v4: '10.244.9.2', v6: 'fd00:244:9::2' },
  routed: { v4: '10.244.0.3', v6: 'fd00:244::3' },
  bridged: { v4: '10.244.1.2', v6: 'fd00:244:1::2' },
} as const;
type Pod = keyof typeof PODS;
const NAMES = Object.keys(PODS) as Pod[];
const service = (pod: Pod) => ({
  v4: `10.96.0.${NAMES.indexOf(pod) + 1}`,
  v6: `fd00:96::${NAMES.indexOf(pod) + 1}`,
});

forEachDataplane(
  'local pods behind destination NAT',
  (dataplane) => {
    let it_: InterfaceNode;
    let agent: RunningAgent;

    before(async () => {
      it_ = await createInterfaceNode(dataplane);
      const world = await it_.pod('remote');
      await it_.ip(
        'link set lo up',
        `link add eth0 type veth peer name eth0 netns ${world.pid}`,
        'link set eth0 up',
        'addr add 10.90.0.10/24 dev eth0',
        'addr add fd00:90::10/64 dev eth0 nodad',
      );
      await lines(world, [
        'link set lo up',
        'link set eth0 up',
        'addr add 10.90.0.1/24 dev eth0',
        'addr add fd00:90::1/64 dev eth0 nodad',
        `addr add ${PODS.remote.v4}/32 dev lo`,
        `addr add ${PODS.remote.v6}/128 dev lo`,
      ]);
      await it_.ip('route add default via 10.90.0.1', 'route add default via fd00:90::1');
      await listen(world, [POD_PORT]);
      const rules = NAMES.flatMap((pod) => [
        `ip daddr ${service(pod).v4} tcp dport ${PORT} dnat ip to ${PODS[pod].v4}:${POD_PORT}`,
        `ip6 daddr ${service(pod).v6} tcp dport ${PORT} dnat ip6 to [${PODS[pod].v6}]:${POD_PORT}`,
      ]);
      await it_.node.nft(
        `table inet services {\nchain output {\ntype nat hook output priority -100\n${rules.join('\n')}\n}\n}\n`,
      );
      await it_.node.write('deny.json', [policy('deny', { egress: [{ name: 'all', action: 'Drop' }] })]);
      await addRouted('here', 'veth1');
    });
    after(() => it_?.close());

    const lines = async (namespace: Namespace, commands: readonly string[]) =>
      void (await namespace.run(['ip', '-batch', '-'], { stdin: `${commands.join('\n')}\n` }));

    async function podWith(pod: Pod, gateway: { readonly v4: string; readonly v6: string }): Promise<void> {
      const namespace = await it_.pod(pod);
      await lines(namespace, [
        'link set lo up',
        'link set eth0 up',
        `addr add ${PODS[pod].v4}/32 dev eth0`,
        `addr add ${PODS[pod].v6}/128 dev eth0 nodad`,
        `route add default via ${gateway.v4} dev eth0 onlink`,
        `route add default via ${gateway.v6} dev eth0 onlink`,
      ]);
      await listen(namespace, [POD_PORT]);
    }

    /** As Calico does: a route to each pod, which comes after the link. */
    async function addRouted(pod: Pod, veth: string): Promise<void> {
      const { pid } = await it_.pod(pod);
      await it_.ip(
        `link add ${veth} type veth peer name eth0 netns ${pid}`,
        `link set ${veth} up`,
        `addr add fe80::1/64 dev ${veth} nodad`,
      );
      await podWith(pod, { v4: '10.90.0.10', v6: 'fe80::1' });
      await it_.ip(`route add ${PODS[pod].v4}/32 dev ${veth}`, `route add ${PODS[pod].v6}/128 dev ${veth}`);
    }

    /** As the bridge plugin does: one route to all pods. */
    async function addBridged(pod: Pod, veth: string): Promise<void> {
      const { pid } = await it_.pod(pod);
      await it_.ip(
        'link add cni0 type bridge',
        'link set cni0 up',
        'addr add 10.244.1.1/24 dev cni0',
        'addr add fd00:244:1::1/64 dev cni0 nodad',
        `link add ${veth} type veth peer name eth0 netns ${pid}`,
        `link set ${veth} master cni0 up`,
      );
      await podWith(pod, { v4: '10.244.1.1', v6: 'fd00:244:1::1' });
    }

    async function answers(pod: Pod): Promise<string> {
      const { v4, v6 } = service(pod);
      return (await Promise.all([v4, v6].map((host) => connects(it_.namespace, host, PORT, 500)))).join();
    }
    const YES = 'true,true';
    const NO = 'false,false';

    it('are reached without rules, like remote ones', async () => {
      assert.deepEqual([await answers('here'), await answers('remote')], [YES, YES]);
    });

    it('are reached under an egress deny, unlike remote ones', async () => {
      await it_.once();
      assert.deepEqual([await answers('here'), await answers('remote')], [YES, NO]);
    });

    it('are closed by a rule that names them, like remote ones', async () => {
      const { v4, v6 } = PODS.here;
      const pod = {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'here', namespace: 'shop', labels: { app: 'here' } },
        spec: { nodeName: 'node-0' },
        status: { phase: 'Running', podIPs: [{ ip: v4 }, { ip: v6 }] },
      };
      for (const to of [
        [{ podSelector: { matchLabels: { app: 'here' } } }],
        [{ ipBlock: { cidr: `${v4}/32` } }, { ipBlock: { cidr: `${v6}/128` } }],
      ]) {
        await it_.node.write('named.json', [pod, policy('named', { egress: [{ action: 'Drop', to }] })]);
        await it_.once();
        assert.deepEqual([await answers('here'), await answers('remote')], [NO, NO], JSON.stringify(to));
      }
      await it_.node.remove('named.json');
      await it_.once();
      assert.deepEqual([await answers('here'), await answers('remote')], [YES, NO]);
    });

    it('that are added later are reached', async () => {
      agent = await it_.start();
      const reached = (pod: Pod) =>
        until(`pod ${pod} is reached`, async () => (await answers(pod)) === YES, { detail: agent.log });
      await addRouted('routed', 'veth2');
      await reached('routed');
      await addBridged('bridged', 'veth3');
      await reached('bridged');
      assert.deepEqual([await answers('here'), await answers('remote')], [YES, NO]);
    });

    it('that are removed are no longer exempt', async () => {
      assert.match(await it_.node.rules(), /\b10\.244\.0\.3\b/);
      await it_.ip('link del veth2');
      await until('the address is gone', async () => !/\b10\.244\.0\.3\b/.test(await it_.node.rules()), {
        detail: agent.log,
      });
      assert.deepEqual([await answers('here'), await answers('bridged')], [YES, YES]);
    });

    it('are policed if the exemption is off', async () => {
      await agent.end('SIGTERM');
      await it_.once({ exemptions: { localPods: false } });
      assert.deepEqual([await answers('here'), await answers('remote')], [NO, NO]);
    });
  },
  EITHER_IPTABLES,
);
