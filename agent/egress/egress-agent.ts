import type { NodeState } from '../../apis/compiled.ts';
import type { EgressConfig } from '../../apis/egress/config.ts';
import type { Enforced } from '../apply/enforcer.ts';
import type {
  AgentExtension,
  ClusterContext,
  ExtendedConnections,
  ExtensionContext,
} from '../extension/agent-extension.ts';
import type { Layer, PassOn } from '../run/layers.ts';
import { EgressDataplane } from './egress-dataplane.ts';
import { type EgressMetrics, egressMetrics } from './egress-metrics.ts';
import { forgettingSources } from './forget-connections.ts';
import type { EgressHealthReport } from './health/egress-health.ts';
import { type EgressLeases, startLeases } from './lease/egress-leases.ts';
import { type EgressMemory, withMemory } from './lingering.ts';
import { ClaimSocket } from './pods/claim.ts';
import { EgressPods, type EgressPodsOptions } from './pods/egress-pods.ts';
import { installPlugin } from './pods/plugin.ts';
import { PluginServer } from './pods/plugin-server.ts';
import { type EgressRecording, egressRecording } from './record/binding-recorder.ts';
import { SteeredConnections } from './steered-connections.ts';
import type { WireGuardKeys } from './wireguard-keys.ts';

/** Reads what the last run had in force and knew. */
export async function openEgress(
  context: ExtensionContext,
  keys: WireGuardKeys | null,
): Promise<AgentExtension> {
  const last = (await context.saved.readState())?.egress ?? null;
  const memory = (await context.saved.readExtension()) as EgressMemory | null;
  return new EgressAgent(context, keys, {
    last: last === null ? null : withMemory(last, memory),
    lost: memory?.lost ?? [],
  });
}

/** Egress gateways of an agent that enforces rules. */
class EgressAgent implements AgentExtension {
  readonly dataplane: EgressDataplane;
  readonly #context: ExtensionContext;
  /** Null: this agent has no metrics. */
  readonly #metrics: EgressMetrics | null;
  #recording: EgressRecording | null = null;
  /** Null: the agent is of no cluster, or it enforces no more. */
  #leases: EgressLeases | null = null;

  constructor(
    context: ExtensionContext,
    keys: WireGuardKeys | null,
    earlier: Pick<ConstructorParameters<typeof EgressDataplane>[0], 'last' | 'lost'>,
  ) {
    this.#context = context;
    this.#metrics = context.metrics.extend(egressMetrics);
    this.dataplane = new EgressDataplane({
      ...earlier,
      config: context.config,
      keys,
      problems: (problems) => {
        this.#metrics?.lacks(problems.length);
        context.lacks(problems);
      },
      reported: (report) => this.#reported(report),
    });
  }

  async layer(next: PassOn): Promise<Layer & { close(): Promise<void> }> {
    const { options, config, log, clock } = this.#context;
    const { stateDir, once } = options;
    if (once) return { submit: next, async close() {} };
    const unreachable = (): readonly string[] => this.dataplane.health()?.unreachable ?? [];
    return await startPods({ stateDir, config: config.egress, log, clock, unreachable, next });
  }

  async start(): Promise<void> {
    this.#metrics?.health(() => this.dataplane.health());
    if (!this.#context.options.once) this.#recording = await egressRecording(this.#context, this.#metrics);
  }

  async join(cluster: ClusterContext): Promise<void> {
    const { floating } = this.dataplane;
    if (floating === null) return;
    const { options, log, clock } = this.#context;
    this.#leases = await startLeases({
      ...cluster,
      node: options.node,
      log,
      clock,
      kernel: floating,
      counted: (counts) => this.#metrics?.leases(counts),
    });
  }

  viewed({ egress }: NodeState): void {
    this.#leases?.viewed(egress ?? null);
  }

  enforced({ resolved }: Enforced): void {
    this.#save();
    this.#recording?.enforced(resolved);
    this.#leases?.enforced(resolved.egress ?? null);
  }

  connections(inTurn: <T>(pass: () => Promise<T>) => Promise<T>): ExtendedConnections {
    return new SteeredConnections(this.#context, inTurn);
  }

  async leave(isLast: boolean): Promise<void> {
    await this.#leases?.stop(isLast);
    this.#leases = null;
  }

  async close(): Promise<void> {
    await this.#recording?.close();
  }

  #reported(report: EgressHealthReport): void {
    this.#save();
    this.#leases?.health(report);
    this.#context.unready(report.unready);
  }

  #save(): void {
    const memory = this.dataplane.memory();
    if (memory !== null) this.#context.saved.extension(memory);
  }
}

interface StartOptions extends Pick<EgressPodsOptions, 'log' | 'clock' | 'unreachable' | 'next'> {
  readonly stateDir: string;
  readonly config: EgressConfig;
}

/** Starts what a node with egress gateways needs to steer pods from their first packet on. */
async function startPods({
  stateDir,
  config,
  ...parts
}: StartOptions): Promise<Layer & { close(): Promise<void> }> {
  const { log } = parts;
  const ended = forgettingSources({ ...parts, which: 'all' });
  const taken = forgettingSources({ ...parts, which: 'taken' });
  const pods = new EgressPods({
    ...parts,
    results: config.cniResults,
    openClaims: ClaimSocket.open,
    forget: (addresses) => ended.add(new Set(addresses)),
    forgetTaken: (addresses) => taken.add(new Set(addresses)),
  });
  await pods.start();
  const server = new PluginServer({ stateDir, log, clock: parts.clock, pods });
  await server.listen();
  if (config.cniPlugins !== '') await installPlugin(config.cniPlugins, log);
  return {
    submit(envelope) {
      server.setRequired(envelope.resolved.egress !== undefined);
      pods.submit(envelope);
    },
    over: (state) => pods.over(state),
    enforced: (result) => pods.enforced(result),
    async close() {
      await server.close();
      await pods.close();
      await Promise.all([ended.close(), taken.close()]);
    },
  };
}
