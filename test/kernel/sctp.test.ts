/** Rules for SCTP, with sockets of SCTP: an association is made where it is allowed alone. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Namespace } from '../netns/namespace.ts';
import { probeProgram } from '../probe/probe.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { policy, tcp } from './manifests.ts';

const [OPEN, CLOSED, REFUSED] = [9001, 9002, 9003];
const PORTS = [OPEN, CLOSED, REFUSED];
const sctp = (port: number): object => ({ protocol: 'SCTP', port });

forEachDataplane(
  'sockets of SCTP',
  (dataplane) => {
    let node: EnforcedNode;
    before(async function () {
      node = await createEnforcedNode(undefined, dataplane);
      const { topology } = node;
      for (const namespace of [topology.node, ...topology.clients])
        if (!(await serve(namespace))) {
          process.stderr.write('skipped: sockets of SCTP: this kernel has none\n');
          this.skip();
        }
    });
    after(() => node?.close());

    it('associate where a rule allows it, in both directions and families', async () => {
      const rules = [
        { name: 'open', action: 'Allow', ports: [sctp(OPEN)] },
        { name: 'refused', action: 'Reject', ports: [sctp(REFUSED)] },
        { name: 'rest', action: 'Drop', ports: [sctp(CLOSED), tcp(OPEN)] },
      ] as const;
      await node.write('policy.json', [policy('in', { ingress: rules }), policy('out', { egress: rules })]);
      await node.again('--strict');
      const { topology } = node;
      const [client] = topology.clients;
      const [own] = topology.plan.nodeAddresses;
      const [other] = topology.plan.clientAddresses;
      assert.ok(client !== undefined && own !== undefined && other !== undefined);
      for (const [from, { v4, v6 }] of [
        [client, own],
        [topology.node, other],
      ] as const) {
        const calls = [v4, v6].flatMap((host) => PORTS.map((port) => associates(from, host, port)));
        assert.deepEqual(await Promise.all(calls), [true, false, false, true, false, false], from.name);
      }
    });
  },
  EITHER_IPTABLES,
);

/** False: the kernel has no SCTP. */
async function serve(namespace: Namespace): Promise<boolean> {
  const server = namespace.spawn([await probeProgram(), 'listen', ...PORTS.map((port) => `sctp:${port}`)]);
  const ended = once(server, 'exit').then(() => false);
  return await Promise.race([once(server.stdout, 'data').then(() => true), ended]);
}

async function associates(from: Namespace, host: string, port: number): Promise<boolean> {
  const to = ['--dst', host, '--port', String(port), '--protocol', 'sctp'];
  const { status, stderr } = await from.run([await probeProgram(), 'connect', ...to], { anyStatus: true });
  assert.equal(stderr, '');
  return status === 0;
}
