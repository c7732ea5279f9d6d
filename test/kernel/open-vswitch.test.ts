/**
 * A node whose pods and network are ports of an Open vSwitch bridge: its datapath forwards between
 * them past the node's rules, and what enters or leaves the node by an internal port is judged.
 */
import assert from 'node:assert/strict';
import type { Namespace } from '../netns/namespace.ts';
import { createInterfaceNode, type InterfaceNode } from './interfaces.ts';
import { kernelSuite } from './kernel-suite.ts';
import { cidr, policy, tcp } from './manifests.ts';
import { lacksOpenVswitch, type OpenVswitch, startOpenVswitch } from './open-vswitch.ts';
import { connects, listen, talk } from './talk.ts';

/** The internal ports: the pods' gateway, as Antrea names it, and the node's network. */
const [GATEWAY, UPLINK] = ['antrea-gw0', 'br-ex'] as const;
const NODE = { pods: '10.244.0.1', network: '192.0.2.1' } as const;
const ADDRESSES = { one: '10.244.0.2', two: '10.244.0.3', outside: '192.0.2.2' } as const;
type End = keyof typeof ADDRESSES;
const OTHER = '203.0.113.9';
const OTHER_NODE = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'other' },
  status: { addresses: [{ type: 'InternalIP', address: OTHER }] },
};
/** For all of the end's network, for pods by their group, and for nobody. */
const [OPEN, OF_GROUP, CLOSED] = [9001, 9002, 9003];

kernelSuite('a node with Open vSwitch', () => {
  let bed: InterfaceNode;
  let ovs: OpenVswitch;
  const ends = new Map<End, Namespace>();
  before(async function () {
    const missing = await lacksOpenVswitch();
    if (missing !== null) {
      process.stderr.write(`skipped: a node with Open vSwitch: ${missing}\n`);
      this.skip();
    }
    bed = await createInterfaceNode();
    ovs = await startOpenVswitch(bed.namespace);
    await ovs.vsctl('add-br', 'br-int');
    await ovs.vsctl('add-port', 'br-int', GATEWAY, '--', 'set', 'interface', GATEWAY, 'type=internal');
    await ovs.vsctl('add-br', UPLINK);
    for (const [name, address] of Object.entries(ADDRESSES) as [End, string][]) {
      const end = await bed.pod(name);
      ends.set(name, end);
      await bed.ip(`link add ${name} type veth peer name eth0 netns ${end.pid}`, `link set ${name} up`);
      await ovs.vsctl('add-port', name === 'outside' ? UPLINK : 'br-int', name);
      const to = name === 'outside' ? NODE.network : NODE.pods;
      const lines = ['link set lo up', 'link set eth0 up', `addr add ${address}/24 dev eth0`];
      await end.run(['ip', '-batch', '-'], { stdin: [...lines, `route add default via ${to}\n`].join('\n') });
      await listen(end, [OPEN, CLOSED]);
    }
    await bed.ip(
      ...['lo', GATEWAY, UPLINK].map((name) => `link set ${name} up`),
      `addr add ${NODE.pods}/24 dev ${GATEWAY}`,
      `addr add ${NODE.network}/24 dev ${UPLINK}`,
    );
    await bed.namespace.run(['sysctl', '-qw', 'net.ipv4.ip_forward=1']);
    await listen(bed.namespace, [OPEN, OF_GROUP, CLOSED]);
  });
  after(async () => {
    await ovs?.close();
    await bed?.close();
  });

  const end = (name: End): Namespace => ends.get(name) ?? assert.fail();

  it('judges what enters and leaves by internal ports, and cuts nothing', async () => {
    const calls = [
      // By the datapath alone.
      ['one', ADDRESSES.two, CLOSED, true],
      ['one', NODE.pods, OPEN, true],
      ['one', NODE.pods, OF_GROUP, true],
      ['one', NODE.pods, CLOSED, false],
      ['one', NODE.network, OPEN, true],
      ['one', NODE.network, CLOSED, false],
      ['outside', NODE.network, OPEN, true],
      ['outside', NODE.network, OF_GROUP, false],
      ['outside', NODE.network, CLOSED, false],
      // The node forwards it: no policy is for that.
      ['outside', ADDRESSES.one, CLOSED, true],
      ['one', ADDRESSES.outside, CLOSED, true],
      // Exempt (localPods), allowed, and denied.
      ['node', ADDRESSES.one, CLOSED, true],
      ['node', ADDRESSES.outside, OPEN, true],
      ['node', ADDRESSES.outside, CLOSED, false],
    ] as const;
    const attempt = () =>
      Promise.all(
        calls.map(async ([from, host, port]) => {
          const namespace = from === 'node' ? bed.namespace : end(from);
          return `${from} to ${host} ${port}: ${await connects(namespace, host, port)}`;
        }),
      );
    const said = (isAllowed: (each: (typeof calls)[number]) => boolean) =>
      calls.map((each) => `${each.slice(0, 3).join(' ').replace(' ', ' to ')}: ${isAllowed(each)}`);
    assert.deepEqual(
      await attempt(),
      said(() => true),
    );
    const open = [
      await talk(end('one'), [{ name: 'pod', host: NODE.pods, port: CLOSED }]),
      await talk(end('outside'), [{ name: 'outside', host: NODE.network, port: CLOSED }]),
      await talk(bed.namespace, [{ name: 'node', host: ADDRESSES.outside, port: CLOSED }]),
    ];

    const networks = [cidr('10.244.0.0/24'), cidr('192.0.2.0/24')];
    const rest = { name: 'rest', action: 'Drop' } as const;
    const allowed = { name: 'open', action: 'Allow', ports: [tcp(OPEN)] } as const;
    const pods = [{ interfaceGroup: 'pods' }];
    await bed.node.write('deny.json', [
      policy('in', {
        ingress: [
          { ...allowed, from: networks },
          { name: 'pods', action: 'Allow', from: pods, ports: [tcp(OF_GROUP)] },
          rest,
        ],
      }),
      policy('out', { egress: [{ ...allowed, to: networks }, rest] }),
    ]);
    await bed.once({}, '--strict');

    const groups = await bed.groups();
    const shown = [GATEWAY, UPLINK, 'br-int', 'ovs-system'].map((name) => groups[name]);
    assert.deepEqual(shown, [8, 0, 0, 0]);
    assert.deepEqual(
      await attempt(),
      said(([, , , isAllowed]) => isAllowed),
    );
    const alive = await Promise.all(open.map((names) => names()));
    assert.deepEqual(alive, [['pod'], ['outside'], ['node']]);
  });

  it('drops what a pod sends with an address of another Node', async () => {
    await bed.node.write('other.json', [OTHER_NODE]);
    await bed.once({}, '--strict');
    const dropped = async () => {
      const { stdout } = await bed.namespace.run(['nft', 'list', 'chain', 'inet', 'nodewall', 'spoofed']);
      return Number(/counter packets (\d+)/.exec(stdout)?.[1]);
    };
    const pod = end('two');
    assert.equal(await connects(pod, NODE.pods, OPEN), true);
    const before = await dropped();
    const lines = [`addr add ${OTHER}/32 dev eth0`, `route add ${NODE.pods}/32 dev eth0 src ${OTHER}`];
    await pod.run(['ip', '-batch', '-'], { stdin: `${lines.join('\n')}\n` });
    assert.equal(await connects(pod, NODE.pods, OPEN), false);
    assert.ok((await dropped()) > before);
  });
});
