/**
 * Namespaces are deleted by the real controllers, whatever became of nodewall's; the aggregated API
 * is read at every replica.
 */

import assert from 'node:assert/strict';
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import type { Daemon } from '../cluster/daemon.ts';
import { startControllerManager } from '../cluster/kubernetes-controllers.ts';
import { type RunningAgent, toRunningAgent } from '../kernel/enforced-node.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { succeeds, until } from '../kernel/until.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { ROOT } from '../structure/source-file.ts';
import { API_SERVICE, controllerService, untilAggregated } from './controller-service.ts';
import { controllerKubeconfig, install as installKinds } from './installed.ts';

const ADDRESS = '192.0.2.10';
const SYSTEM = 'nodewall-system';
/** Milliseconds; the issue allows 120 s. */
const LIMIT = 60_000;
const PORTS = [8443, 8444] as const;

kernelSuite('uninstall and namespaces, with the real namespace controller', function () {
  this.timeout(600_000);
  let namespace: Namespace;
  let cluster: TestCluster;
  let manager: Daemon;
  let controllers: RunningAgent[] = [];

  before(async function () {
    this.timeout(1_800_000);
    namespace = await createNamespace('uninstall');
    await namespace.run(['ip', 'link', 'set', 'lo', 'up']);
    await namespace.run(['ip', 'address', 'add', `${ADDRESS}/32`, 'dev', 'lo']);
    // No kube-proxy: the API server looks for the endpoints itself.
    cluster = await startCluster({
      namespace,
      address: ADDRESS,
      apiServerFlags: ['--enable-aggregator-routing=true'],
    });
    const which = ['namespace-controller', 'garbage-collector-controller'];
    manager = await startControllerManager({ cluster, namespace, controllers: which });
  });
  after(async () => {
    for (const one of controllers) await one.end('SIGKILL');
    await manager?.stop('SIGKILL');
    await cluster?.close();
    await namespace?.close();
  });

  async function kubectl(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await cluster.kubectl(args);
    assert.equal(code, 0, `kubectl ${args.join(' ')}: ${stderr}`);
    return stdout;
  }
  const logs = (): string => controllers.map((one) => one.log().slice(-4000)).join('\n---\n');
  const isThere = (...object: readonly string[]): Promise<boolean> => succeeds(cluster.get(...object));
  const isGone = (...object: readonly string[]): Promise<unknown> =>
    until(`${object.join(' ')} is gone`, async () => !(await isThere(...object)), {
      limit: LIMIT,
      detail: logs,
    });
  const isAvailable = (): Promise<void> => untilAggregated(cluster, { limit: LIMIT, detail: logs });

  async function install(ports: readonly number[] = PORTS): Promise<void> {
    await installKinds(cluster);
    await cluster.apply(controllerService(ADDRESS, [PORTS[0]]));
    const path = await controllerKubeconfig(cluster);
    controllers = ports.map((port) => {
      const args = ['--kubeconfig', path, '--listen', `${ADDRESS}:${port}`, '--log-format', 'json'];
      return toRunningAgent(namespace.spawn([NODEWALL, 'controller', ...args]));
    });
    await isAvailable();
  }

  const endControllers = async (signal: 'SIGTERM' | 'SIGKILL'): Promise<void> => {
    await Promise.all(controllers.map((one) => one.end(signal)));
    controllers = [];
  };

  /** Waits until both are done. */
  async function makeAndDelete(name: string): Promise<void> {
    await kubectl('create', 'namespace', name);
    await kubectl('delete', 'namespace', name, '--timeout=60s');
  }

  /** As docs/cluster.md has it; `ended` is called once the controllers have ended. */
  async function uninstall(ended = async () => {}): Promise<void> {
    const commands = [
      ['delete', 'mutatingwebhookconfiguration,validatingwebhookconfiguration', 'nodewall'],
      ['delete', '-n', SYSTEM, 'deployment/nodewall-controller', 'daemonset/nodewall-agent'],
      ['delete', 'apiservice', API_SERVICE],
      ['delete', '-k', `${ROOT}/deploy/kustomize/base`, '--timeout=240s'],
    ];
    for (const command of commands) {
      await kubectl(...command, '--ignore-not-found');
      if (!command.includes('deployment/nodewall-controller')) continue;
      // No Deployment runs here: its pods would have ended with it.
      await endControllers('SIGTERM');
      await ended();
    }
    await isGone('namespace', SYSTEM);
    assert.equal(await isThere('apiservice', API_SERVICE), false);
    for (const kind of ['tiers', 'egressgateways', 'clusteregresspolicies'])
      assert.equal(await isThere('crd', `${kind}.nodewall.io`), false);
  }

  it('every replica answers kubectl, leading or not', async () => {
    await install();
    for (const port of PORTS) {
      await cluster.apply(controllerService(ADDRESS, [port]));
      await until(
        'kubectl lists node views there',
        async () => (await cluster.kubectl(['get', 'nodeviews.controlplane.nodewall.io'])).code === 0,
        {
          limit: LIMIT,
          detail: logs,
        },
      );
    }
  });

  it('namespaces are deleted while controllers run, and after they ended in order, as the documented uninstall ends them', async () => {
    await makeAndDelete('first');
    await uninstall(async () => {
      assert.equal(await isThere('apiservice', API_SERVICE), false);
      await makeAndDelete('second');
    });
  });

  it('nodewall’s own namespace is deleted while controllers run: they remove the API, and never register it again', async () => {
    await install();
    await kubectl('delete', 'namespace', SYSTEM, '--timeout=60s');
    assert.equal(await isThere('apiservice', API_SERVICE), false);
    await endControllers('SIGKILL');
  });

  it('the API is removed with the controllers’ rights, if they could not remove it', async () => {
    await install([PORTS[0]]);
    await endControllers('SIGKILL');
    await kubectl('delete', 'namespace', SYSTEM, '--wait=false');
    await kubectl('delete', '-f', `${ROOT}/deploy/rbac.yaml`, '--ignore-not-found', '--timeout=240s');
    await isGone('apiservice', API_SERVICE);
    await isGone('namespace', SYSTEM);
  });

  it('the documented uninstall works in any other state', async () => {
    for (const state of ['killed', 'half gone'] as const) {
      await install([PORTS[0]]);
      if (state === 'killed') await endControllers('SIGKILL');
      if (state === 'half gone') await kubectl('delete', 'clusterrole', 'nodewall-controller');
      await uninstall();
    }
  });
});
