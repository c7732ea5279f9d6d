import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '../kernel/until.ts';
import type { Bed } from './bed.ts';
import type { RealCluster, RealNode } from './cluster.ts';
import {
  AGENTS,
  NAMESPACE,
  podsWithTerminating,
  tableOf,
  untilAgentsRun,
  untilFollowed,
  untilReady,
  untilTables,
} from './nodewall.ts';
import { EVENTS } from './outage.ts';
import { shellBlocks } from './shell-blocks.ts';
import { reset } from './trial.ts';

const PAGE = join(import.meta.dirname, '../../docs/recovery.md');

/**
 * Policies that name the control plane's ports, so that the failsafe does not count: the only way
 * left to lock nodewall out.
 */
export const LOCKS = {
  // New controllers cannot reach the API server.
  ingress: `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: lock}
spec:
  tier: emergency
  priority: 1
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: no-api, action: Drop, ports: [{protocol: TCP, port: 6443}]}]
`,
  // Agents cannot reach the controllers or the API server, nor names their addresses.
  egress: `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: lock}
spec:
  tier: emergency
  priority: 1
  appliedTo: [{nodeSelector: {}}]
  egress:
    - {name: no-control-plane, action: Drop, ports: [{protocol: TCP, port: 443}, {protocol: TCP, port: 6443}, {protocol: TCP, port: 8443}, {protocol: TCP, port: 9443}]}
    - {name: no-names, action: Drop, ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]}
`,
} as const;

/** Until the rules are gone after a page's commands (milliseconds). */
const LIMIT = 60_000;

/** docs/recovery.md, followed in states that lock nodewall out for good. */
export function describeRecovery(bed: Bed): void {
  describe('locked by rules that name the control plane', () => {
    /** The blocks below a heading that run on such a machine, in order. */
    async function blocks(heading: string, where: 'with kubectl' | 'on the node'): Promise<string[]> {
      const all = shellBlocks(await readFile(PAGE, 'utf8')).filter((block) => block.heading === heading);
      const found = all.filter(({ script }) => script.startsWith(`# ${where}\n`)).map(({ script }) => script);
      assert.ok(found.length > 0, `docs/recovery.md has no block "${where}" below "${heading}"`);
      return found;
    }
    async function withKubectl(heading: string): Promise<void> {
      for (const script of await blocks(heading, 'with kubectl')) {
        const { code, stdout, stderr } = await bed.shell(script.replace('POLICY=deny-all', 'POLICY=lock'));
        assert.equal(code, 0, `${script}\n${stdout}${stderr}`);
      }
    }
    async function onNodes(heading: string, nodes: readonly RealNode[]): Promise<void> {
      for (const node of nodes) {
        for (const script of await blocks(heading, 'on the node')) {
          const { code, stderr } = await node.run(['bash', '-euo', 'pipefail', '-c', script]);
          assert.equal(code, 0, `${node.name}: ${script}\n${stderr}`);
        }
      }
    }
    async function lock(cluster: RealCluster, how: keyof typeof LOCKS): Promise<void> {
      await reset(cluster);
      await cluster.apply(LOCKS[how]);
      await untilTables(cluster, 'the lock is enforced', (table) => table.includes('-lock-'));
      // Agents lose their connections, and nobody is there for new ones.
      await EVENTS['all controllers killed'](cluster);
      if (how === 'egress') await EVENTS['all agents restarted'](cluster);
      await untilAgentsRun(cluster);
    }
    const noTables = (cluster: RealCluster): Promise<void> =>
      untilTables(cluster, 'no rules are left', (table) => table === '', LIMIT);
    async function comeBack(cluster: RealCluster, filesOn: readonly RealNode[] = []): Promise<void> {
      await withKubectl('Delete the policy');
      await untilReady(cluster);
      if (filesOn.length > 0) await onNodes('Come back', filesOn);
      await withKubectl('Come back');
      await untilFollowed(cluster);
    }

    /** Locks the cluster, has it opened, and everything as before again. */
    const opened =
      (how: keyof typeof LOCKS, open: (cluster: RealCluster) => Promise<void>, hasFiles = false) =>
      async (): Promise<void> => {
        const cluster = bed.cluster();
        await lock(cluster, how);
        await open(cluster);
        await noTables(cluster);
        await comeBack(cluster, hasFiles ? cluster.nodes : []);
      };

    it(
      'is open again by the gate alone, when new controllers cannot reach the API server',
      opened('ingress', () => withKubectl('Switch all nodes off')),
    );

    it(
      'has one node open again by kubectl exec',
      opened('ingress', async (cluster) => {
        await withKubectl('One node off');
        assert.equal(await tableOf(cluster.node('worker-1')), '');
        await withKubectl('Every node off, one by one');
      }),
    );

    it(
      'is open again by kubectl exec, when agents reach neither controller nor API server',
      opened('egress', () => withKubectl('Every node off, one by one')),
    );

    it(
      'is open again by a file on each node',
      opened('egress', ({ nodes }) => onNodes('On the node alone', nodes), true),
    );

    it('is open again on each node without an agent, and stays open when agents start', async () => {
      const cluster = bed.cluster();
      await lock(cluster, 'ingress');
      const schedule = (patch: object) =>
        cluster.kubectlOutput([
          ...['patch', 'daemonset/nodewall-agent', `--namespace=${NAMESPACE}`, '--type=merge'],
          `--patch=${JSON.stringify({ spec: { template: { spec: patch } } })}`,
        ]);
      await schedule({ nodeSelector: { nowhere: 'true' } });
      // One on its way out may still repair what is removed.
      await until('no agent runs', async () => (await podsWithTerminating(cluster, AGENTS)).length === 0);
      await onNodes('Without an agent', cluster.nodes);
      await noTables(cluster);
      await schedule({ nodeSelector: null });
      await untilReady(cluster);
      await noTables(cluster);
      await comeBack(cluster, cluster.nodes);
    });
  });
}
