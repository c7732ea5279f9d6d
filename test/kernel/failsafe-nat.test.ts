/**
 * The failsafe list behind destination NAT that others make, as kube-proxy does for a Service's
 * address.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { policy } from './manifests.ts';

const SERVICE = { v4: '10.96.0.9', v6: 'fd00:96::9' };
/** Another Service, with the same endpoint. */
const OTHER = { v4: '10.96.0.10', v6: 'fd00:96::10' };
const PORT = 443;
const ENDPOINT_PORT = 8443;
const TRIES = 3;

/** Connects to each address some times, all at once, and prints how often it was answered. */
const CALLER = `
const { connect } = require('node:net');
const call = (host) => new Promise((resolve) => {
  const socket = connect({ host, port: ${PORT} });
  const end = (answered) => { socket.destroy(); resolve(answered); };
  socket.setTimeout(500, () => setImmediate(end, false)).once('connect', () => end(true)).once('error', () => end(false));
});
Promise.all(process.argv.slice(1).flatMap((host) => Array.from({ length: ${TRIES} }, () => call(host))))
  .then((answers) => console.log(answers.filter(Boolean).length));`;
const SERVER = `require('node:net').createServer().listen(${ENDPOINT_PORT}, '::', () => console.log('listening'));`;

forEachDataplane(
  'the failsafe list behind destination NAT',
  (dataplane) => {
    let node: EnforcedNode;

    before(async () => {
      node = await createEnforcedNode(undefined, dataplane);
      const { topology } = node;
      const [client] = topology.clients;
      const [endpoint] = topology.plan.clientAddresses;
      assert.ok(client !== undefined && endpoint !== undefined);
      const server = client.spawn([process.execPath, '-e', SERVER]);
      await once(createInterface({ input: server.stdout }), 'line');
      const link = topology.nodeInterface(0);
      await topology.node.run([
        'ip',
        'route',
        'add',
        '10.96.0.0/16',
        'via',
        '169.254.77.2',
        'dev',
        link,
        'onlink',
      ]);
      await topology.node.run([
        'ip',
        '-6',
        'route',
        'add',
        'fd00:96::/64',
        'via',
        'fe80::2',
        'dev',
        link,
        'onlink',
      ]);
      await node.nft(`table inet services {
  chain output {
    type nat hook output priority -100
    ip daddr { ${SERVICE.v4}, ${OTHER.v4} } tcp dport ${PORT} dnat ip to ${endpoint.v4}:${ENDPOINT_PORT}
    ip6 daddr { ${SERVICE.v6}, ${OTHER.v6} } tcp dport ${PORT} dnat ip6 to [${endpoint.v6}]:${ENDPOINT_PORT}
  }
}
`);
    });
    after(() => node?.close());

    async function enforce(failsafe: object, ...policies: readonly object[]): Promise<void> {
      await node.write('policies.json', policies);
      await node.again('--strict', ...(await node.configure({ failsafe })));
    }
    async function answered(...addresses: readonly string[]): Promise<number> {
      const { stdout } = await node.topology.node.run([process.execPath, '-e', CALLER, ...addresses]);
      return Number(stdout);
    }
    const all = 2 * TRIES;
    const deny = policy('deny', { egress: [{ name: 'all', action: 'Drop' }] });
    const entry = (port: number, peers: string | readonly string[]) => ({
      egress: [{ protocol: 'TCP', port, peers }],
    });
    const service = entry(PORT, [`${SERVICE.v4}/32`, `${SERVICE.v6}/128`]);

    it("covers a Service's address and port, and no other port", async () => {
      await enforce({ egress: [] }, deny);
      assert.equal(await answered(SERVICE.v4, SERVICE.v6), 0, 'not on the list');
      await enforce(service, deny);
      assert.equal(await answered(SERVICE.v4, SERVICE.v6), all);
      assert.equal(await answered(OTHER.v4, OTHER.v6), 0, 'another Service');
    });

    it('covers the port before NAT for the peers any', async () => {
      await enforce(entry(PORT, 'any'), deny);
      assert.equal(await answered(SERVICE.v4, SERVICE.v6), all);
      await enforce(entry(80, 'any'), deny);
      assert.equal(await answered(SERVICE.v4, SERVICE.v6), 0);
    });

    it('covers the endpoint as well', async () => {
      await enforce(entry(ENDPOINT_PORT, 'any'), deny);
      assert.equal(await answered(SERVICE.v4, SERVICE.v6), all);
    });

    it('does not skip a rule that names the port after NAT', async () => {
      const ports = [{ protocol: 'TCP', port: ENDPOINT_PORT }];
      await enforce(
        service,
        policy('deny', {
          egress: [
            { name: 'named', action: 'Drop', ports },
            { name: 'all', action: 'Drop' },
          ],
        }),
      );
      assert.equal(await answered(SERVICE.v4, SERVICE.v6), 0);
    });
  },
  EITHER_IPTABLES,
);
