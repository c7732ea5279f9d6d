import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bed } from './bed.ts';
import { type RealCluster, untilNodesReady } from './cluster.ts';
import {
  CONTROLLERS,
  install,
  NAMESPACE,
  pods,
  setGate,
  untilFollowed,
  untilReady,
  untilTables,
} from './nodewall.ts';
import { EVENTS, POLICIES } from './outage.ts';
import { shellBlocks } from './shell-blocks.ts';
import { reset } from './trial.ts';

const DOCS = join(import.meta.dirname, '../../docs');
/** What the namespace controller may take, its own waits between tries included. */
const GONE = ['--wait=true', '--timeout=120s'];

/**
 * Namespaces can be deleted, and nodewall removed, whatever state it is in. The last stories of a
 * cluster: nodewall is away after them.
 */
export function describeRemoval(bed: Bed): void {
  describe('uninstalled', () => {
    const deleteNamespace = async (cluster: RealCluster, name: string): Promise<void> => {
      const { code, stderr } = await cluster.kubectl(['delete', 'namespace', name, ...GONE]);
      if (code === 0) return;
      const { stdout } = await cluster.kubectl(['get', 'namespace', name, '-o', 'yaml']);
      assert.fail(`namespace ${name} is not gone: ${stderr}\n${stdout}`);
    };
    const makeNamespace = async (cluster: RealCluster, name: string): Promise<void> => {
      await cluster.kubectlOutput(['create', 'namespace', name]);
      await cluster.kubectlOutput(['create', 'configmap', 'content', `--namespace=${name}`]);
    };

    it('lets any namespace be deleted while controllers answer', async () => {
      const cluster = bed.cluster();
      await makeNamespace(cluster, 'with-controllers');
      await deleteNamespace(cluster, 'with-controllers');
    });

    it('lets any namespace be deleted while both nodes of the controllers are without power', async () => {
      const cluster = bed.cluster();
      await cluster.kubectlOutput(['cordon', 'cp-1']);
      try {
        await reset(cluster);
        await EVENTS['all controllers deleted'](cluster);
        await untilReady(cluster);
        const workers = cluster.nodes.filter(({ name }) => name !== 'cp-1');
        const places = (await pods(cluster, CONTROLLERS)).map(({ spec }) => spec.nodeName);
        assert.deepEqual(
          places.sort(),
          workers.map(({ name }) => name),
        );
        await Promise.all(workers.map((node) => node.powerOff()));
        await makeNamespace(cluster, 'without-controllers');
        await deleteNamespace(cluster, 'without-controllers');
        await Promise.all(workers.map((node) => node.powerOn()));
        await untilNodesReady(cluster);
      } finally {
        await cluster.kubectlOutput(['uncordon', 'cp-1']);
      }
      await untilFollowed(cluster);
    });

    it('is removed by the commands of docs/cluster.md, under policies that close nearly everything', async () => {
      const cluster = bed.cluster();
      await setGate(cluster, true);
      for (const policy of [await POLICIES.flagship(), await POLICIES.both()]) await cluster.apply(policy);
      await untilFollowed(cluster);
      const text = await readFile(join(DOCS, 'cluster.md'), 'utf8');
      const blocks = shellBlocks(text).filter(({ heading }) => heading === 'Uninstall');
      assert.ok(blocks.length > 0, 'docs/cluster.md says how to uninstall');
      for (const { line, script } of blocks) {
        const { code, stdout, stderr } = await bed.shell(script);
        assert.equal(code, 0, `docs/cluster.md:${line}: ${stdout}${stderr}`);
      }
      await untilTables(cluster, 'no rules are left', (table) => table === '');
      const { stdout } = await cluster.kubectl(['get', 'namespace', NAMESPACE, '--ignore-not-found']);
      assert.equal(stdout, '');
    });

    it('is removed with its namespace, while controllers run', async () => {
      const cluster = bed.cluster();
      await install(cluster);
      await deleteNamespace(cluster, NAMESPACE);
    });

    it('is removed with its namespace, without controllers', async () => {
      const cluster = bed.cluster();
      await install(cluster);
      await cluster.kubectlOutput([
        'scale',
        'deployment/nodewall-controller',
        '--replicas=0',
        `--namespace=${NAMESPACE}`,
      ]);
      await EVENTS['all controllers killed'](cluster);
      await deleteNamespace(cluster, NAMESPACE);
    });
  });
}
