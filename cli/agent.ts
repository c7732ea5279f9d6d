import { removeBootFiles } from '../agent/boot/boot-folder.ts';
import { logHidden, removeAll } from '../agent/dataplane/dataplane.ts';
import type { ApiServerAddress } from '../agent/receive/api-server.ts';
import {
  agentLock,
  holdNamespace,
  type NamespaceHold,
  namespaceHolder,
  untilHeld,
} from '../agent/run/agent-lock.ts';
import { type AgentMetrics, NO_METRICS } from '../agent/run/agent-metrics.ts';
import { type AgentOptions, apiServerAddress, httpsUrl } from '../agent/run/agent-options.ts';
import type { ControllerAccess } from '../agent/run/controller-connection.ts';
import { type KeptFlows, keepFlows } from '../agent/run/flow-inventory.ts';
import { keepInterfaceGroups, releaseInterfaceGroups } from '../agent/run/interface-groups.ts';
import { OffSwitch } from '../agent/run/off-file.ts';
import { loadAddon, withKernel } from '../agent/run/with-kernel.ts';
import type { Config } from '../apis/config.ts';
import { validateOptions } from '../apis/validate/object.ts';
import { STANDARD_INPUT } from '../apis/validate/problem.ts';
import { BackOff } from '../lib/process/back-off.ts';
import { systemClock } from '../lib/process/clock.ts';
import { CommandError, EXIT, type ExitStatus, exitInTime, untilStopped } from '../lib/process/exit.ts';
import { createLog, type Log } from '../lib/process/log.ts';
import type { MetricsServer } from '../lib/process/metrics-server.ts';
import { toListenAddress } from '../lib/process/option-value.ts';
import { VERSION } from '../lib/process/version.ts';
import { checkEgressAlone, checkEgressGate, checkEgressHost, withFeatureGates } from './feature-gates.ts';
import { loadConfig } from './load.ts';
import { MachineNode } from './machine-node.ts';
import type { UntilEnded } from './standalone.ts';

type AgentCommandOptions = Omit<AgentOptions, 'node'> & {
  /** Absent: this machine. Only with manifests. */
  readonly node?: string;
};

/**
 * Checks the options, takes the locks, and runs the agent until it is stopped. The rules stay.
 * Throws a CommandError for bad options.
 */
export async function agentCommand(given: AgentCommandOptions): Promise<ExitStatus> {
  const source = sourceOf(given);
  if (given.metricsListen !== undefined) toListenAddress(given.metricsListen, '--metrics-listen');
  const config = withFeatureGates(await loadConfig(given.config), given.featureGates);
  const machine = given.node === undefined ? new MachineNode(validateOptions(config)) : null;
  const options: AgentOptions = { ...given, node: given.node ?? machine?.name ?? '' };
  checkEgressGate(config);
  if (source.kind === 'manifests') checkEgressAlone(config);
  const log = createLog(options);
  await loadAddon();
  const { metrics, close } = await agentTelemetry(options, config, log);
  try {
    const hold = await holdAlone(options, log);
    if (hold === null) return EXIT.done;
    try {
      const release = await agentLock(options.stateDir).acquire(log);
      try {
        return await runAgent({ source, options, machine, config, log, metrics });
      } finally {
        release();
      }
    } finally {
      await hold.close();
    }
  } finally {
    await close();
  }
}

/**
 * Holds this network namespace; waits as long as another agent has it. Null: a signal ended the
 * wait. Throws a CommandError with `--once`.
 */
async function holdAlone({ node, once }: AgentOptions, log: Log): Promise<NamespaceHold | null> {
  const hold = await holdNamespace();
  if (hold !== null) return hold;
  const holder = (await namespaceHolder()) ?? 'a process that has just ended';
  const other = `another agent enforces rules in this network namespace: ${holder}`;
  if (once) throw new CommandError(EXIT.refused, `${other}; stop it first`);
  const ended = new AbortController();
  const signal = untilStopped(ended.signal).then((name) => {
    if (name !== null) ended.abort();
  });
  log.warn(`${other}. This one waits, changes nothing, and takes over when that one has ended`, { node });
  const held = await untilHeld(ended.signal);
  ended.abort();
  await signal;
  if (held !== null) log.info('the other agent has ended; taking over', { node });
  return held;
}

type AgentRun = Pick<StandaloneSetup, 'options' | 'machine' | 'config' | 'log' | 'metrics'> & {
  readonly source: Source;
};

async function runAgent({ source, options, machine, config, log, metrics }: AgentRun): Promise<ExitStatus> {
  // From the command line, else from the configuration. Undefined means on with --manifests; in a
  // cluster, the cluster's gate decides, and this machine can only switch it off.
  const gate = config.featureGates.NodeNetworkPolicy;
  const flows = await keepFlows({ options, config, log, metrics, clock: systemClock });
  const { node, stateDir } = options;
  const off = new OffSwitch({ node, stateDir, log });
  try {
    if (source.kind === 'controller') {
      const { controller } = source;
      const { host } = controller.url;
      log.info('starting', {
        node,
        controller: host,
        apiServer: source.api?.url.host,
        stateDir,
        gate,
        config,
      });
      const { runInCluster } = await import('./cluster-run.ts');
      return await runInCluster({ options, controller, api: source.api, config, log, metrics, flows, off });
    }
    const { manifests } = source;
    const enabled = gate ?? true;
    log.info('starting', { node, manifests, stateDir, enabled, config });
    metrics.enabled(enabled);
    if (!enabled) return await disabled(options, config, log, 'NodeNetworkPolicy=false');
    return await standAlone({ options, manifests, machine, config, log, metrics, flows, off });
  } finally {
    off.close();
    await flows?.close();
  }
}

interface StandaloneSetup {
  readonly options: AgentOptions;
  readonly manifests: readonly string[];
  /** Null: the Node must be declared. */
  readonly machine: MachineNode | null;
  readonly config: Config;
  readonly log: Log;
  readonly metrics: AgentMetrics;
  readonly flows: KeptFlows | null;
  readonly off: OffSwitch;
}

/** Runs until the agent ends; `nodewall off` and `on` end one run and begin the next. */
async function standAlone(setup: StandaloneSetup): Promise<ExitStatus> {
  const { options, config, log, metrics, off } = setup;
  for (;;) {
    const isOff = off.now !== null;
    const switched = new AbortController();
    const stopListening = off.listen(() => {
      if ((off.now !== null) !== isOff) switched.abort();
    });
    // A signal ends the agent, whatever is switched while it stops.
    async function untilEnded(): Promise<NodeJS.Signals | null> {
      const signal = await untilStopped(switched.signal);
      stopListening();
      return signal;
    }
    try {
      metrics.off(isOff);
      const status = isOff
        ? await disabled(options, config, log, 'nodewall off', untilEnded)
        : await standAloneRun(setup, untilEnded);
      if (options.once || !switched.signal.aborted) return status;
    } finally {
      stopListening();
    }
  }
}

async function standAloneRun(setup: StandaloneSetup, untilEnded: UntilEnded): Promise<ExitStatus> {
  const { options, config, log, metrics } = setup;
  const { runStandalone } = await import('./standalone.ts');
  const { openDataplanes } = await import('../agent/dataplane/dataplanes.ts');
  // Interfaces must be in their groups before the first rule is applied: an exemption matches a
  // group.
  const interfaces = await keepInterfaceGroups({ options, config, log, metrics });
  try {
    return await withKernel(async (kernel) => {
      const dataplanes = await openDataplanes({ node: options.node, config, kernel, log });
      await checkEgressHost(config, dataplanes.chosen.name);
      return runStandalone({ ...setup, dataplanes, interfaces, untilEnded });
    });
  } finally {
    await interfaces.close();
  }
}

type Source =
  | { readonly kind: 'manifests'; readonly manifests: readonly string[] }
  | {
      readonly kind: 'controller';
      readonly controller: ControllerAccess;
      readonly api: ApiServerAddress | null;
    };

/**
 * The source of policies: exactly one of --manifests and --controller, with the options that belong
 * to it.
 */
function sourceOf(options: AgentCommandOptions): Source {
  const { manifests, controller, tokenFile, caFile, apiServer, apiTokenFile, apiCaFile } = options;
  const { node, once, strict } = options;
  const wrong = (message: string): CommandError => new CommandError(EXIT.usage, message);
  if (manifests !== undefined && controller !== undefined) {
    throw wrong('give either --manifests or --controller, not both');
  }
  if (manifests?.includes(STANDARD_INPUT)) {
    throw wrong('--manifests: an agent reads its manifests again: give a file or directory, not -');
  }
  if (manifests !== undefined) {
    const alone = {
      '--token-file': tokenFile,
      '--ca-file': caFile,
      '--api-server': apiServer,
      '--api-token-file': apiTokenFile,
      '--api-ca-file': apiCaFile,
    };
    for (const [option, value] of Object.entries(alone))
      if (value !== undefined) throw wrong(`${option}: only with --controller`);
    return { kind: 'manifests', manifests };
  }
  if (controller === undefined) throw wrong('give --manifests DIR, or --controller https://HOST:PORT');
  if (node === undefined) throw wrong('--controller: needs --node NAME');
  if (once) throw wrong('--once: only with --manifests; the agent of a cluster follows its controller');
  if (strict)
    throw wrong(
      '--strict: only with --manifests; in a cluster the status of a policy says whether it is invalid',
    );
  if (tokenFile === undefined) throw wrong('--controller: needs --token-file');
  const api = apiServerAddress(options, process.env);
  if (caFile === undefined && api === null) {
    throw wrong(
      '--controller: needs --ca-file; outside of a pod the agent cannot read the CA from the API server',
    );
  }
  const url = httpsUrl('--controller', controller);
  return { kind: 'controller', controller: { url, tokenFile, caFile: caFile ?? null }, api };
}

interface Telemetry {
  readonly metrics: AgentMetrics;
  close(): Promise<void>;
}

/** Retries if the address is not available: that is no reason to enforce nothing. */
async function agentTelemetry(options: AgentOptions, { featureGates }: Config, log: Log): Promise<Telemetry> {
  const { metricsListen, healthSocket, metricsRules: ofRules = false, controller, node } = options;
  const listens = [metricsListen, healthSocket === undefined ? undefined : { socket: healthSocket }].filter(
    (listen) => listen !== undefined,
  );
  if (listens.length === 0) return { metrics: NO_METRICS, close: async () => {} };
  const [{ prometheusMetrics }, { serveMetrics }] = await Promise.all([
    import('../agent/run/prometheus.ts'),
    import('../lib/process/metrics-server.ts'),
  ]);
  const metrics = prometheusMetrics({
    version: VERSION,
    isInCluster: controller !== undefined,
    ofRules,
  });
  if (featureGates.EgressGateway === true) {
    const { extendMetrics } = await import('../agent/extension/agent.ts');
    await extendMetrics(metrics);
  }
  const { registry, ready } = metrics;
  const servers: MetricsServer[] = [];
  const timers = new Set<NodeJS.Timeout>();
  async function open(listen: (typeof listens)[number], waits: BackOff): Promise<void> {
    try {
      const server = await serveMetrics({ listen, registry, healthy: () => null, ready });
      servers.push(server);
      const at = typeof listen === 'string' ? { port: server.port } : listen;
      log.info('serving health and metrics', { node, ...at });
    } catch (error) {
      log.error('cannot serve health and metrics; retrying', { node, error: (error as Error).message });
      timers.add(setTimeout(() => void open(listen, waits), waits.next()).unref());
    }
  }
  await Promise.all(listens.map((listen) => open(listen, new BackOff({ first: 1_000, longest: 60_000 }))));
  return {
    metrics,
    async close() {
      for (const timer of timers) clearTimeout(timer);
      await Promise.all(servers.map((server) => server.close()));
    },
  };
}

/**
 * Enforces nothing and removes what was enforced. Without --once the process stays, as a service
 * manager expects, until `untilEnded` resolves.
 */
async function disabled(
  options: AgentOptions,
  config: Config,
  log: Log,
  gate: string,
  untilEnded: UntilEnded = untilStopped,
): Promise<ExitStatus> {
  const { allLeftOvers } = await import('../agent/dataplane/dataplanes.ts');
  const { removed, hidden } = await withKernel(async (kernel) => removeAll(await allLeftOvers(kernel)));
  logHidden(log, options.node, hidden);
  await removeBootFiles(options.stateDir);
  const { interfaces } = await releaseInterfaceGroups(options.stateDir, config, log);
  log.info('disabled', { node: options.node, removed, interfaces, gate });
  if (options.once) return EXIT.done;
  const signal = await untilEnded();
  if (signal !== null) exitInTime(log, { node: options.node });
  return EXIT.done;
}
