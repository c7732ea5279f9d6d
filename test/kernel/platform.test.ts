/**
 * Two nodes and a tunnel between them, by each kind of interface: a blanket deny of both directions
 * on one of them keeps its pods' traffic through the tunnel, as the tunnel is on the failsafe list;
 * without that it stops.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Namespace } from '../netns/namespace.ts';
import { type Dataplane, EITHER_IPTABLES, forEachDataplane, itForAny } from './dataplane.ts';
import { createInterfaceNode, type InterfaceNode } from './interfaces.ts';
import { ipBatch, layCables, makeLink } from './link-ends.ts';
import { INSIDE, LINK_KINDS, type LinkKind, UNDERLAY } from './link-kinds.ts';
import { policy } from './manifests.ts';
import { connects, listen } from './talk.ts';
import { until } from './until.ts';

/** They carry packets between nodes. */
const CARRIERS = ['vxlan', 'geneve', 'wireguard', 'ipip', 'gre', 'xfrm'];
const POD = { address: '198.18.0.9', gateway: '10.90.0.1' } as const;
const PORT = 9001;
const BGP = 179;
/** BFD; Typha's port on loopback alone; a connection to BGP of the other machine. */
const SOCKETS = `
const net = require('node:net');
require('node:dgram').createSocket('udp4').bind(3784, '0.0.0.0', () =>
  net.createServer().listen(5473, '127.0.0.1', () =>
    net.connect(179, process.argv[1], () => console.log('up'))));`;
/** Packets that come out of the tunnel may go on to the pod. */
const FORWARDED =
  'xfrm policy add dir fwd src 198.18.0.0/24 dst 198.18.0.0/24 ' +
  `tmpl src ${UNDERLAY.peer} dst ${UNDERLAY.node} proto esp reqid 7 mode tunnel if_id 7`;

forEachDataplane('what carries pods', suite, EITHER_IPTABLES);

function suite(dataplane: Dataplane): void {
  let it_: InterfaceNode;
  let peer: Namespace;
  let pod: Namespace;
  beforeEach(async () => {
    it_ = await createInterfaceNode(dataplane);
    peer = await it_.pod('peer');
    pod = await it_.pod('pod');
    await layCables(it_.namespace, peer);
    await ipBatch(it_.namespace, [
      `link add pod0 type veth peer name eth0 netns ${pod.pid}`,
      'link set pod0 up',
      `addr add ${POD.gateway}/32 dev pod0`,
      `route add ${POD.address}/32 dev pod0`,
    ]);
    await it_.namespace.run(['sysctl', '-qw', 'net.ipv4.ip_forward=1']);
    await ipBatch(pod, [
      'link set lo up',
      'link set eth0 up',
      `addr add ${POD.address}/32 dev eth0`,
      `route add ${POD.gateway} dev eth0`,
      `route add default via ${POD.gateway}`,
    ]);
    await it_.node.write('deny.json', [
      policy('blanket', { ingress: [{ action: 'Drop' }], egress: [{ action: 'Drop' }] }),
      nodeOf('other', UNDERLAY.peer),
    ]);
    await listen(peer, [PORT]);
    await listen(pod, [PORT]);
  });
  afterEach(() => it_?.close());

  for (const link of LINK_KINDS.filter(({ kind }) => CARRIERS.includes(kind)))
    it(`${link.kind}: a blanket deny leaves it, unless platform is false`, async function () {
      const missing = await makeCarrier(link);
      if (missing !== null) {
        process.stderr.write(`skipped: links of kind ${link.kind}: ${missing}\n`);
        this.skip();
      }
      await it_.once({ failsafe: { platform: false } }, '--strict');
      assert.deepEqual(await reached(), { outward: false, inward: false });
      await it_.once({}, '--strict');
      // The neighbour on a tunnel that was cut may count as failed for a while.
      await until('pods reach each other', async () => {
        const { outward, inward } = await reached();
        return outward && inward;
      });
      assert.equal(await connects(peer, UNDERLAY.node, PORT), false, 'nothing else is open');
    });

  itForAny(dataplane)('is found in sockets that other hosts can reach', async () => {
    const before = await annotation();
    await listen(it_.namespace, [4240]);
    await listen(peer, [BGP]);
    const sockets = it_.namespace.spawn([process.execPath, '-e', SOCKETS, UNDERLAY.peer]);
    await once(sockets.stdout, 'data');
    assert.deepEqual([before, await annotation()], ['""', 'tcp/179,tcp/4240,udp/3784']);
    sockets.kill('SIGKILL');
  });

  it('is found while the agent runs, and forgotten when it is gone', async () => {
    const vxlan = LINK_KINDS.find(({ kind }) => kind === 'vxlan') as LinkKind;
    const agent = await it_.start();
    await makeCarrier(vxlan);
    await until('pods reach each other', async () => (await reached()).outward, { detail: agent.log });
    await it_.ip(`link del ${vxlan.name}`);
    await until('the port is closed again', async () => !(await it_.node.rules()).includes('8472'), {
      detail: agent.log,
    });
    await agent.end('SIGTERM');
  });

  async function annotation(): Promise<string | undefined> {
    const { stdout } = await it_.node.ask('check', '--machine', '-o', 'yaml');
    return /nodewall\.io\/platform: (.*)/.exec(stdout)?.[1];
  }

  /** The link, by which the peer reaches the pod. Returns what the kernel lacks, or null. */
  async function makeCarrier(link: LinkKind): Promise<string | null> {
    const missing = await makeLink(it_.namespace, peer, link);
    if (missing !== null) return missing;
    await ipBatch(peer, [`route add ${POD.address}/32 via ${INSIDE[4].node} dev ${link.peerName} onlink`]);
    if (link.kind === 'xfrm') await it_.ip(FORWARDED);
    return null;
  }

  /** New connections of the pod and to it, through the tunnel. */
  async function reached(): Promise<{ outward: boolean; inward: boolean }> {
    await it_.namespace.run(['conntrack', '-F']);
    const [outward, inward] = await Promise.all([
      connects(pod, INSIDE[4].peer, PORT),
      connects(peer, POD.address, PORT),
    ]);
    return { outward, inward };
  }
}

function nodeOf(name: string, address: string): object {
  const status = { addresses: [{ type: 'InternalIP', address }] };
  return { apiVersion: 'v1', kind: 'Node', metadata: { name }, status };
}
