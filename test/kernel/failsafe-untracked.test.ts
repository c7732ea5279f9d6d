/**
 * The failsafe list where another table leaves packets out of connection tracking, as Cilium does
 * with those that came by WireGuard or IPsec: a blanket deny closes neither the node's own
 * connections to its peers' kubelet and etcd, nor theirs to its own.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Namespace } from '../netns/namespace.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { policy, tcp } from './manifests.ts';

const KUBELET = 10_250;
const ETCD = 2380;
const OTHER = 9100;
const PORTS = [KUBELET, ETCD, OTHER];

/** Answers what it gets, at each port. */
const SERVER = `
const ports = JSON.parse(process.argv[1]);
let left = ports.length;
for (const port of ports) require('node:net').createServer((socket) => socket.on('error', () => {}).pipe(socket))
  .listen(port, '::', () => --left || console.log('listening'));`;

/** Prints for each call whether it was answered: its host, port and own port. */
const CALLER = `
const calls = JSON.parse(process.argv[1]);
const call = ([host, port, localPort]) => new Promise((resolve) => {
  const socket = require('node:net').connect({ host, port, localPort }, () => socket.write('x'));
  const end = (answered) => { socket.destroy(); resolve(answered); };
  socket.setTimeout(1500, () => setImmediate(end, false)).once('data', () => end(true)).once('error', () => end(false));
});
Promise.all(calls.map(call)).then((answers) => console.log(JSON.stringify(answers)));`;

type Call = readonly [host: string, port: number, localPort?: number];

/** Packets to the node are not tracked; those that it sends are, as far as conntrack can. */
const INCOMING = `table inet nwnotrack {
  chain before { type filter hook prerouting priority raw; notrack; }
}
`;
/** Neither is. */
const BOTH = `table inet nwnotrack {
  chain before { type filter hook prerouting priority raw; notrack; }
  chain out { type filter hook output priority raw; notrack; }
}
`;

forEachDataplane(
  'the failsafe list for untracked packets',
  (dataplane) => {
    let node: EnforcedNode;
    let peer: Namespace;

    before(async () => {
      node = await createEnforcedNode(undefined, dataplane);
      const { topology } = node;
      [peer] = topology.clients as [Namespace];
      // The kernel chooses which of them it sends from.
      const own = topology.plan.clientAddresses.filter(({ client }) => client === 0);
      const addresses = own.flatMap(({ v4, v6 }) => [v4, v6]);
      const status = { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) };
      await node.write('peer.json', [{ apiVersion: 'v1', kind: 'Node', metadata: { name: 'peer' }, status }]);
      for (const namespace of [topology.node, peer]) {
        const server = namespace.spawn([process.execPath, '-e', SERVER, JSON.stringify(PORTS)]);
        await once(createInterface({ input: server.stdout }), 'line');
      }
    });
    after(() => node?.close());

    async function answered(from: Namespace, calls: readonly Call[]): Promise<boolean[]> {
      const { stdout } = await from.run([process.execPath, '-e', CALLER, JSON.stringify(calls)]);
      return JSON.parse(stdout);
    }

    for (const [title, untracked] of [
      ['incoming', INCOMING],
      ['all', BOTH],
    ] as const) {
      it(`keeps the kubelet and etcd reachable in both directions where ${title} packets are untracked`, async () => {
        const { plan } = node.topology;
        const [own, [other]] = [plan.nodeAddresses[0], plan.clientAddresses];
        assert.ok(own !== undefined && other !== undefined);
        await node.write('policies.json', [
          policy('deny', {
            ingress: [{ name: 'in', action: 'Drop' }],
            egress: [{ name: 'out', action: 'Drop' }],
          }),
        ]);
        await node.again('--strict');
        await node.nft(`table inet nwnotrack\ndelete table inet nwnotrack\n${untracked}`);
        const out = [other.v4, other.v6].flatMap((host) => PORTS.map((port): Call => [host, port]));
        const back = [own.v4, own.v6].flatMap((host) => PORTS.map((port): Call => [host, port]));
        const wanted = [true, true, false, true, true, false];
        assert.deepEqual(await answered(node.topology.node, out), wanted);
        assert.deepEqual(await answered(peer, back), wanted);
        const checked = await node.asked('check', '--machine');
        assert.match(
          checked.stdout,
          /warning +untracked packets +rules of other tables leave packets untracked: inet nwnotrack \([12]\)/,
        );
        // A packet that asks is no answer, whatever its port.
        assert.deepEqual(
          await answered(peer, [
            [own.v4, OTHER, 2379],
            [own.v6, OTHER, 2379],
          ]),
          [false, false],
        );
        // A rule that names the port closes it for answers, too.
        await node.write('policies.json', [
          policy('deny', {
            ingress: [
              {
                name: 'kubelet',
                action: 'Drop',
                ports: [{ protocol: 'TCP', sourcePort: KUBELET }, tcp(KUBELET)],
              },
              { name: 'in', action: 'Drop' },
            ],
          }),
        ]);
        await node.again('--strict');
        assert.deepEqual(await answered(node.topology.node, out), [false, true, false, false, true, false]);
      });
    }
  },
  EITHER_IPTABLES,
);
