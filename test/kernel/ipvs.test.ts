/**
 * Policies on a node whose Services are IPVS's, as kube-proxy makes them in that mode: what the
 * limits in docs/nodeport.md say.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { Namespace } from '../netns/namespace.ts';
import { addressPlan } from '../netns/topology.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import type { VirtualServer } from './generic-netlink-child.ts';
import { cidr, policy, tcp } from './manifests.ts';
import { connects, listen } from './talk.ts';

const CHILD = join(import.meta.dirname, 'generic-netlink-child.ts');
const SERVICE = '10.96.0.10';
const POD_PORT = 8080;
/** Ports that clients call: of the pod on this node, and of one on another node. */
const [LOCAL, REMOTE] = [30_080, 30_081];
const PORTS = [LOCAL, REMOTE];
/** The clients' places in the plan. */
const OUTSIDE = 0;

forEachDataplane(
  'Services by IPVS',
  (dataplane) => {
    let node: EnforcedNode;
    let outside: Namespace;
    let own: string;
    before(async function () {
      node = await createEnforcedNode(addressPlan({ clients: 3, groups: [0, 8, 9] }), dataplane);
      const { topology } = node;
      const [client, ...pods] = topology.clients;
      const [address] = topology.plan.nodeAddresses;
      assert.ok(client !== undefined && address !== undefined);
      [outside, own] = [client, address.v4];
      await topology.node.run(['ip', 'addr', 'add', `${SERVICE}/32`, 'dev', 'lo']);
      for (const virtual of [SERVICE, own])
        for (const [place, port] of PORTS.entries()) {
          const pod = topology.plan.clientAddresses.find(({ client: one }) => one === place + 1);
          const real = { address: pod?.v4 ?? '', port: POD_PORT };
          if (!(await make({ address: virtual, port, real }))) {
            process.stderr.write('skipped: Services by IPVS: this kernel has none\n');
            this.skip();
          }
        }
      // As kube-proxy sets it.
      await topology.node.run(['sysctl', '-qw', 'net.ipv4.vs.conntrack=1']);
      for (const pod of pods) await listen(pod, [POD_PORT]);
    });
    after(() => node?.close());

    /** False: the kernel has no IPVS. */
    async function make(server: VirtualServer): Promise<boolean> {
      const argv = [process.execPath, CHILD, 'ipvs', JSON.stringify(server)];
      const { status, stderr } = await node.topology.node.run(argv, { anyStatus: true });
      if (status === 0) return true;
      assert.match(stderr, /ENOENT/);
      return false;
    }

    async function enforce(...policies: readonly object[]): Promise<void> {
      await node.write('policies.json', policies);
      await node.again('--strict');
    }

    /** Which of the ports answer at the node's address and at the Service's. */
    async function answered(): Promise<boolean[]> {
      const calls = [own, SERVICE].flatMap((host) => PORTS.map((port) => connects(outside, host, port)));
      return await Promise.all(calls);
    }

    const everywhere = (local: boolean, remote: boolean): boolean[] => [local, remote, local, remote];

    it('NodePort policies match nothing', async () => {
      const rules = [{ name: 'all', action: 'Drop' }] as const;
      await enforce(policy('deny', { traffic: 'NodePort', ingress: rules }));
      assert.deepEqual(await answered(), everywhere(true, true));
    });

    it('Host policies see the port that the client called', async () => {
      await enforce(policy('deny', { ingress: [{ name: 'local', action: 'Drop', ports: [tcp(LOCAL)] }] }));
      assert.deepEqual(await answered(), everywhere(false, true));
      const client = node.topology.plan.clientAddresses.find(({ client: one }) => one === OUTSIDE);
      await enforce(
        policy('some', {
          ingress: [
            { name: 'remote', action: 'Allow', from: [cidr(`${client?.v4}/32`)], ports: [tcp(REMOTE)] },
            { name: 'rest', action: 'Drop' },
          ],
        }),
      );
      assert.deepEqual(await answered(), everywhere(false, true));
    });

    it('a default deny for egress sees what IPVS sends to pods elsewhere, and not to those here', async () => {
      const rest = { name: 'rest', action: 'Drop' } as const;
      await enforce(policy('deny', { egress: [rest] }));
      assert.deepEqual(await answered(), everywhere(true, false));
      const pods = [cidr('10.102.0.0/16')];
      const allow = { name: 'pods', action: 'Allow', to: pods, ports: [tcp(POD_PORT)] } as const;
      await enforce(policy('deny', { egress: [allow, rest] }));
      assert.deepEqual(await answered(), everywhere(true, true));
    });
  },
  EITHER_IPTABLES,
);
