import { createServer } from 'node:net';
import type { ControllerContext, ControllerOptions } from '../controller/run/controller-context.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { createLog } from '../lib/process/log.ts';
import { type ListenAddress, toListenAddress } from '../lib/process/option-value.ts';
import { VERSION } from '../lib/process/version.ts';
import { present } from '../lib/sharing/present.ts';
import { openKubeConfig } from './cluster-api.ts';
import { parseFeatureGates } from './feature-gates.ts';
import { loadConfig } from './load.ts';

/**
 * Checks the options and runs the controller until it is stopped. Throws a CommandError for bad
 * options.
 */
export async function controllerCommand(options: ControllerOptions): Promise<ExitStatus> {
  const { tlsCertFile, tlsKeyFile, tlsCaFile, webhookListen, metricsListen, featureGates } = options;
  if ((tlsCertFile === undefined) !== (tlsKeyFile === undefined)) {
    throw new CommandError(EXIT.usage, 'give both of --tls-cert-file and --tls-key-file, or none');
  }
  if (tlsCaFile !== undefined && tlsCertFile === undefined) {
    throw new CommandError(EXIT.usage, '--tls-ca-file: needs --tls-cert-file and --tls-key-file');
  }
  const listen = toListenAddress(options.listen, '--listen');
  const webhook = toWebhook(webhookListen, listen);
  if (metricsListen !== undefined) toListenAddress(metricsListen, '--metrics-listen');
  const peers = options.peer ?? [];
  for (const peer of peers) {
    if (toListenAddress(peer, '--peer').host === undefined)
      throw new CommandError(EXIT.usage, `--peer: ${JSON.stringify(peer)} needs a host`);
  }
  const given = featureGates === undefined ? {} : parseFeatureGates(featureGates);
  const config = await loadConfig(options.config);
  const gates = {
    gate: given.NodeNetworkPolicy ?? null,
    egressGate: { given: given.EgressGateway ?? null, configured: config.featureGates.EgressGateway ?? null },
  };
  const kubeConfig = await openKubeConfig(options.kubeconfig);
  // The controller listens only after it has listed the cluster; whether it can is checked now.
  await checkListen(listen, '--listen');
  if (webhook !== null && webhook !== 'shared') await checkListen(webhook, '--webhook-listen');
  const log = createLog(options);
  const server = kubeConfig.getCurrentCluster()?.server;
  log.info('starting', { version: VERSION, apiServer: server, listen: options.listen, ...gates, config });
  const { runController } = await import('../controller/run/controller.ts');
  return runController({ options, listen, webhook, peers, ...gates, config, kubeConfig, log });
}

/** Null: none is served. Port 0 is never the same twice. */
function toWebhook(text: string | undefined, { host, port }: ListenAddress): ControllerContext['webhook'] {
  if (text === undefined) return null;
  const own = toListenAddress(text, '--webhook-listen');
  return own.host === host && own.port === port && port !== 0 ? 'shared' : own;
}

async function checkListen({ host, port }: ListenAddress, option: string): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: Error) => {
      reject(new CommandError(EXIT.refused, `${option}: ${error.message}`, { cause: error }));
    });
    server.listen({ port, ...present({ host }) }, () => server.close(() => resolve()));
  });
}
