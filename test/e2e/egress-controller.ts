import { parseArgs } from 'node:util';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { loadKubeConfig } from '../../controller/kubeapi/load-kubeconfig.ts';
import { runController } from '../../controller/run/run-controller.ts';
import { toListenAddress } from '../../lib/process/listen-address.ts';
import { createLog } from '../../lib/process/log.ts';

/**
 * A controller with the feature gate EgressGateway on, which `nodewall controller` refuses as long
 * as agents of a cluster do: `node egress-controller.ts KUBECONFIG LISTEN METRICS PEER GATE`.
 */
const { positionals } = parseArgs({ allowPositionals: true });
const [kubeconfig = '', listen = '', metricsListen = '', peer = '', gate = ''] = positionals;
const logLevel = 'info';
await runController({
  options: { listen, metricsListen, tokenAudiences: 'nodewall-controller', relistPeriod: 900, logLevel },
  listen: toListenAddress(listen, 'LISTEN'),
  webhook: null,
  peers: [peer],
  gate: true,
  config: { ...DEFAULT_CONFIG, featureGates: { NodeNetworkPolicy: true, EgressGateway: gate === 'on' } },
  kubeConfig: await loadKubeConfig(kubeconfig),
  log: createLog({ logLevel, logFormat: 'json' }),
});
