/**
 * Caches of DNS on the node itself, at link-local addresses of a device without a link: NodeLocal
 * DNSCache at 169.254.20.10, which leaves its packets untracked, and AKS' LocalDNS at 169.254.10.10
 * and .11.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Namespace } from '../netns/namespace.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { policy, type Rule, tcp, udp } from './manifests.ts';

const CACHES = ['169.254.20.10', '169.254.10.10', '169.254.10.11'] as const;

/** As node-local-dns writes it, in iptables' table raw. */
const UNTRACKED = `table ip nwnodelocal {
  chain before { type filter hook prerouting priority raw; ip daddr ${CACHES[0]} meta l4proto { tcp, udp } th dport 53 notrack; }
  chain out {
    type filter hook output priority raw
    ip daddr ${CACHES[0]} meta l4proto { tcp, udp } th dport 53 notrack
    ip saddr ${CACHES[0]} meta l4proto { tcp, udp } th sport 53 notrack
  }
}
`;

/** Answers what it gets at port 53 of each address, by UDP and TCP. */
const SERVER = `
const hosts = JSON.parse(process.argv[1]);
let left = 2 * hosts.length;
const ready = () => --left || console.log('listening');
for (const host of hosts) {
  const socket = require('node:dgram').createSocket('udp4', (message, { port, address }) => socket.send(message, port, address));
  socket.bind(53, host, ready);
  require('node:net').createServer((one) => one.on('error', () => {}).pipe(one)).listen(53, host, ready);
}`;

/** Prints for each host whether it was answered by UDP, and by TCP. */
const CALLER = `
const asked = (host, ask) => new Promise((resolve) => { setTimeout(resolve, 1500, false); ask(() => resolve(true)); });
const udp = (host) => asked(host, (done) => {
  const socket = require('node:dgram').createSocket('udp4', done);
  socket.on('error', () => {}).send('x', 53, host);
});
const tcp = (host) => asked(host, (done) => {
  const socket = require('node:net').connect(53, host, () => socket.write('x'));
  socket.on('error', () => {}).once('data', done);
});
Promise.all(JSON.parse(process.argv[1]).map(async (host) => [await udp(host), await tcp(host)]))
  .then((answers) => { console.log(JSON.stringify(answers)); process.exit(); });`;

const YES = [true, true];
const NO = [false, false];

forEachDataplane(
  'caches of DNS on the node',
  (dataplane) => {
    let node: EnforcedNode;
    let upstream: string;

    async function serve(namespace: Namespace, hosts: readonly string[]): Promise<void> {
      const server = namespace.spawn([process.execPath, '-e', SERVER, JSON.stringify(hosts)]);
      await once(createInterface({ input: server.stdout }), 'line');
    }

    async function answers(): Promise<unknown> {
      const hosts = JSON.stringify([...CACHES, upstream]);
      const { stdout } = await node.topology.node.run([process.execPath, '-e', CALLER, hosts]);
      return JSON.parse(stdout);
    }

    before(async () => {
      node = await createEnforcedNode(undefined, dataplane);
      const { topology } = node;
      const [client] = topology.clients;
      upstream = topology.plan.clientAddresses[0]?.v4 ?? '';
      assert.ok(client !== undefined && upstream !== '');
      // A dummy device on nodes, which not every kernel of tests has; neither has a carrier.
      await topology.node.run(['ip', 'tuntap', 'add', 'nodelocaldns', 'mode', 'tun']);
      for (const address of CACHES)
        await topology.node.run(['ip', 'address', 'add', `${address}/32`, 'dev', 'nodelocaldns']);
      await node.nft(UNTRACKED);
      await serve(topology.node, CACHES);
      await serve(client, [upstream]);
    });
    after(() => node?.close());

    async function deny(rule: object): Promise<void> {
      const [ingress, egress] = ['in', 'out'].map((name): Rule[] => [{ name, action: 'Drop', ...rule }]);
      assert.ok(ingress !== undefined && egress !== undefined);
      await node.write('policies.json', [policy('deny', { ingress, egress })]);
      await node.again('--strict');
    }

    it('answer the node, and reach their servers, behind blanket denies', async () => {
      assert.deepEqual(await answers(), [YES, YES, YES, YES]);
      await deny({});
      assert.deepEqual(await answers(), [YES, YES, YES, YES]);
    });

    it('answer the node behind denies of port 53, which close their servers', async () => {
      await deny({ ports: [tcp(53), udp(53)] });
      assert.deepEqual(await answers(), [YES, YES, YES, NO]);
    });
  },
  EITHER_IPTABLES,
);
