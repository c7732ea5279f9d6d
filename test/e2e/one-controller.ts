import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { webhooksAt } from '../cluster/admin-api.ts';
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { freePorts } from '../cluster/daemon.ts';
import { NODEWALL } from '../program.ts';
import { ROOT } from '../structure/source-file.ts';

/** A real API server with nodewall's CRDs and rights, and one controller with its webhook. */
export interface OneController {
  readonly cluster: TestCluster;
  /** The webhook configurations, as they were applied. */
  readonly webhooks: string;
  readonly metricsPort: number;
  /** What the controller wrote so far. */
  log(): string;
  /** Ends the controller alone, by SIGKILL. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

/**
 * @param objects manifests that are there before the controller
 * @param featureGates as for --feature-gates
 * @param existing where it is; default: an API server of its own, which close() ends
 */
export async function startOneController(
  objects: string,
  featureGates: string,
  existing?: TestCluster,
): Promise<OneController> {
  const cluster = existing ?? (await startCluster());
  const files = [`${ROOT}/deploy/crds`, `${ROOT}/deploy/rbac.yaml`].flatMap((path) => ['-f', path]);
  const installed = await cluster.kubectl(['apply', '--server-side', ...files]);
  assert.equal(installed.code, 0, installed.stderr);
  await cluster.established();
  if (objects !== '') await cluster.apply(objects);
  const [listen = 0, metricsPort = 0, webhook = 0] = await freePorts(3);
  const webhooks = await webhooksAt(`https://127.0.0.1:${webhook}`);
  await cluster.apply(webhooks);
  const token = await cluster.token('nodewall-system/nodewall-controller');
  const options = {
    kubeconfig: await cluster.kubeconfigFor('controller', { token }),
    listen: `127.0.0.1:${listen}`,
    'metrics-listen': `127.0.0.1:${metricsPort}`,
    'webhook-listen': `127.0.0.1:${webhook}`,
    'feature-gates': featureGates,
    'log-format': 'json',
  };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn(NODEWALL, ['controller', ...args], { stdio: ['ignore', 'inherit', 'pipe'] });
  const log: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => void log.push(line));
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  };
  return {
    cluster,
    webhooks,
    metricsPort,
    kill,
    log: () => log.join('\n'),
    async close() {
      await kill();
      if (existing === undefined) await cluster.close();
    },
  };
}
