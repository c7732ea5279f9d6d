import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { install, SYSTEM_NAMESPACE } from '../../build/cluster/install.ts';
import { until } from '../kernel/until.ts';
import { type Bed, deleteNamespace, makeNamespace, setGate, untilFollowed, untilTables } from './nodewall.ts';
import { EVENTS, POLICIES } from './outage.ts';
import { RecoveryPage, shellBlocks } from './recovery-page.ts';

const DOCS = join(import.meta.dirname, '../../docs');

/**
 * Namespaces can be deleted, and nodewall removed, whatever state it is in. The last stories of a
 * cluster, which follow each other: nodewall is away after them.
 */
export function describeRemoval(bed: Bed): void {
  describe('uninstalled', () => {
    const page = new RecoveryPage(bed);

    it('lets any namespace be deleted while controllers answer', async () => {
      const cluster = bed.cluster();
      await makeNamespace(cluster, 'with-controllers');
      await deleteNamespace(cluster, 'with-controllers');
    });

    it('is removed with its namespace, without controllers, and leaves its rules', async () => {
      const cluster = bed.cluster();
      await page.lock('ingress');
      const scale = ['scale', 'deployment/nodewall-controller', '--replicas=0'];
      await cluster.kubectlOutput([...scale, `--namespace=${SYSTEM_NAMESPACE}`]);
      await EVENTS['all controllers killed'](cluster);
      await deleteNamespace(cluster, SYSTEM_NAMESPACE);
      await page.assertLocked();
    });

    it('is open again on each node without an agent, and stays open when agents start', async () => {
      const cluster = bed.cluster();
      await page.onNodes('Without an agent');
      await page.untilOpen();
      await install(cluster);
      await setGate(cluster, true);
      await until('the controllers know that all nodes are off', async () => (await failing(bed)) === 3, {
        limit: 120_000,
      });
      await page.untilOpen();
      await page.comeBack(cluster.nodes);
    });

    it('is removed by the commands of docs/cluster.md, under policies that close nearly everything', async () => {
      const cluster = bed.cluster();
      await setGate(cluster, true);
      for (const policy of [await POLICIES.flagship(), await POLICIES.both()]) await cluster.apply(policy);
      await untilFollowed(cluster);
      const text = await readFile(join(DOCS, 'cluster.md'), 'utf8');
      const blocks = shellBlocks(text).filter(({ heading }) => heading === 'Uninstall');
      assert.ok(blocks.length > 0, 'docs/cluster.md says how to uninstall');
      for (const [i, { line, script }] of blocks.entries()) {
        const { code, stdout, stderr } = await bed.shell(script);
        assert.equal(code, 0, `docs/cluster.md:${line}: ${stdout}${stderr}`);
        if (i === 0) await until('all nodes are Disabled, for which the page waits', () => areDisabled(bed));
      }
      await untilTables(cluster, 'no rules are left', (table) => table === '');
      const { stdout } = await cluster.kubectl(['get', 'namespace', SYSTEM_NAMESPACE, '--ignore-not-found']);
      assert.equal(stdout, '');
    });
  });
}

/** What `kubectl get nodeviews` shows of each node. */
async function areDisabled(bed: Bed): Promise<boolean> {
  const { stdout } = await bed.shell('kubectl get nodeviews.controlplane.nodewall.io --no-headers');
  const lines = stdout.trim().split('\n');
  return lines.length === bed.cluster().nodes.length && lines.every((line) => /\bDisabled\b/.test(line));
}

/** The number of nodes that do not enforce the lock. */
async function failing(bed: Bed): Promise<number> {
  const { status } = await bed
    .cluster()
    .get<{ status?: { failingNodes?: readonly unknown[] } }>('ncnp', 'lock');
  return status?.failingNodes?.length ?? 0;
}
