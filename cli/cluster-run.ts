import type { Dataplanes } from '../agent/dataplane/dataplane.ts';
import type { ApiServerAddress } from '../agent/receive/api-server.ts';
import type { AgentMetrics } from '../agent/run/agent-metrics.ts';
import type { AgentOptions } from '../agent/run/agent-options.ts';
import type { ControllerAccess } from '../agent/run/controller-connection.ts';
import type { KeptFlows } from '../agent/run/flow-inventory.ts';
import type { OffSwitch } from '../agent/run/off-file.ts';
import { clusterFile } from '../agent/run/state-store.ts';
import { withKernel } from '../agent/run/with-kernel.ts';
import { type Config, withEgressGroup } from '../apis/config.ts';
import { systemClock } from '../lib/process/clock.ts';
import { CommandError, type ExitStatus } from '../lib/process/exit.ts';
import type { Log } from '../lib/process/log.ts';
import { VERSION } from '../lib/process/version.ts';
import { checkEgressGate, checkEgressHost } from './feature-gates.ts';

interface ClusterRunOptions {
  readonly options: AgentOptions;
  readonly controller: ControllerAccess;
  /** Null: this agent has no access to the API server. */
  readonly api: ApiServerAddress | null;
  readonly config: Config;
  readonly log: Log;
  readonly metrics: AgentMetrics;
  readonly flows: KeptFlows | null;
  readonly off: OffSwitch;
}

const OFF_HERE = 'feature gate EgressGateway is off on this machine';

/**
 * Runs the agent of a cluster until it is stopped. It follows the cluster's feature gate
 * EgressGateway, which the controller's view shows, unless this machine's is off: an agent that has
 * none of what egress gateways need, and receives some, begins again with it. Turned off, the agent
 * removes what it steered, and keeps the rest until its next start.
 */
export async function runInCluster(setup: ClusterRunOptions): Promise<ExitStatus> {
  const { options, controller, api: address, config, log, metrics, flows, off } = setup;
  const { node, stateDir } = options;
  const given = config.featureGates.EgressGateway;
  const { ApiServer } = await import('../agent/receive/api-server.ts');
  const { runClusterAgent } = await import('../agent/run/cluster-agent.ts');
  const api = address === null ? null : new ApiServer(address, `nodewall-agent/${VERSION}`, systemClock);
  const isAllowed = config.featureGates.NodeNetworkPolicy !== false;
  let wants = given ?? (await clusterFile(stateDir, log).read())?.egress ?? false;
  for (;;) {
    const ended = await withKernel(async (kernel) => {
      const { openDataplanes } = await import('../agent/dataplane/dataplanes.ts');
      const { extendMetrics, prepareExtension } = await import('../agent/extension/agent.ts');
      const opened = await openFor(wants, config, (used) =>
        openDataplanes({ node, config: used, kernel, log }),
      );
      const { refused } = opened;
      const extension = await prepareExtension({ stateDir, config: opened.config, log });
      if (wants && refused !== null)
        log.error('this node steers no connection to egress gateways', { node, why: refused });
      if (refused === null && wants) await extendMetrics(metrics);
      const time = { clock: systemClock, random: Math.random };
      const telling = { log, metrics, flows };
      return runClusterAgent({
        options,
        controller,
        api,
        off,
        isAllowed,
        ...telling,
        ...opened,
        extension,
        ...time,
      });
    });
    if (ended !== 'again') return ended;
    wants = true;
  }
}

interface Opened {
  readonly config: Config;
  readonly dataplanes: Dataplanes;
  /** Why the machine cannot have egress gateways; null: it can. */
  readonly refused: string | null;
}

/**
 * Opens the dataplane with or without egress gateways: without them too where this machine can't
 * have them, since its firewall must not depend on that.
 */
async function openFor(
  wants: boolean,
  config: Config,
  open: (used: Config) => Promise<Dataplanes>,
): Promise<Opened> {
  const [off, on] = [false, true].map((gate) => withGate(config, gate)) as [Config, Config];
  let refused = config.featureGates.EgressGateway === false ? OFF_HERE : null;
  if (wants) {
    try {
      checkEgressGate(on);
      const dataplanes = await open(on);
      await checkEgressHost(on, dataplanes.chosen.name);
      return { config: on, dataplanes, refused: null };
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      refused = error.message;
    }
  }
  return { config: off, dataplanes: await open(off), refused };
}

function withGate(config: Config, EgressGateway: boolean): Config {
  return withEgressGroup({ ...config, featureGates: { ...config.featureGates, EgressGateway } });
}
