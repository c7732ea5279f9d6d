import type { Config } from '../../apis/config.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { envelopeOf } from '../apply/envelope.ts';
import { removeBootFiles } from '../boot/boot-folder.ts';
import { type Dataplanes, removeAll, warnHidden } from '../dataplane/dataplane.ts';
import type { FloatingKernel } from '../egress/floating-kernel.ts';
import type { WireGuardKeys } from '../egress/wireguard-keys.ts';
import type { GuardReport } from '../guard/holds.ts';
import type { Destination } from '../receive/destinations.ts';
import type { Folded } from '../receive/fold.ts';
import type { AgentLog } from './agent-log.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions } from './agent-options.ts';
import type { Target } from './agent-state.ts';
import type { ControlPlanePlaces } from './control-plane-places.ts';
import type { ControllerConnection, ControllerOptions } from './controller-connection.ts';
import type { EgressLeases } from './egress-leases.ts';
import { type Enforcement, startEnforcement } from './enforcement.ts';
import type { KeptFlows } from './flow-inventory.ts';
import { type InterfaceGroups, keepInterfaceGroups, releaseInterfaceGroups } from './interface-groups.ts';
import type { StateStore } from './state-store.ts';

interface ClusterEnforcementParts {
  readonly options: AgentOptions;
  readonly config: Config;
  readonly controller: ControllerOptions;
  readonly connection: Pick<ControllerConnection, 'authorities' | 'askInward'>;
  readonly places: Pick<
    ControlPlanePlaces,
    'addresses' | 'apiServers' | 'inward' | 'nameServers' | 'probes' | 'allEntries'
  >;
  /** The controllers themselves. */
  readonly replicas: () => readonly Destination[];
  readonly dataplanes: Dataplanes;
  readonly saved: StateStore;
  readonly log: Log;
  readonly reports: AgentLog;
  readonly metrics: AgentMetrics;
  readonly flows: KeptFlows | null;
  readonly egress: { readonly keys: WireGuardKeys | null };
  readonly clock: WallClock;
  readonly events: ClusterEnforcementEvents;
}

export interface ClusterEnforcementEvents {
  /** The submitted state is in force, or what of it can be. */
  enforced(result: Enforced): void;
  /** The dataplane could apply nothing; it is tried again. */
  refused(error: Error): void;
  /** `guardReport` or `egressProblems` changed. */
  changed(): void;
}

/** The parts that `clear` removed. */
export interface Cleared {
  readonly removed: readonly string[];
  /** Names of the interfaces that were reset to group 0. */
  readonly interfaces: readonly string[];
}

/**
 * The enforcement of this node, in a cluster: rules, interface groups, and the leases of floating
 * addresses. It starts and stops as often in one run as the gate and `nodewall off` have it. The
 * caller makes one call of `start`, `stop`, `clear` and `close` at a time.
 */
export class ClusterEnforcement {
  readonly #parts: ClusterEnforcementParts;
  #view: Folded | null = null;
  /** Stay while the rules do, also over a stop. */
  #interfaces: InterfaceGroups | null = null;
  #enforcement: Enforcement | null = null;
  /** Null: nothing is enforced, or the feature gate EgressGateway is off. */
  #leases: EgressLeases | null = null;
  #guardReport: GuardReport | null = null;
  #egressProblems: readonly string[] = [];

  constructor(parts: ClusterEnforcementParts) {
    this.#parts = parts;
  }

  /** Null: guarded apply has nothing to say. */
  get guardReport(): GuardReport | null {
    return this.#guardReport;
  }

  /** The objects that the network configuration of egress gateways lacks. */
  get egressProblems(): readonly string[] {
    return this.#egressProblems;
  }

  /** The controller's view; it is not enforced before it is submitted. */
  viewed(view: Folded): void {
    this.#view = view;
    this.#leases?.viewed(view.state.egress ?? null);
  }

  /** The kernel's rules are not changed before the first state is submitted. */
  async start(): Promise<void> {
    this.#interfaces ??= await keepInterfaceGroups(this.#parts);
    const { connection, places, events } = this.#parts;
    this.#enforcement = await startEnforcement({
      ...this.#parts,
      wireguard: this.#parts.egress.keys,
      interfaces: this.#interfaces,
      apiServer: () => places.apiServers(),
      guard: hasGuard(this.#parts.config)
        ? {
            controlPlane: () => places.probes(),
            failsafe: () => places.allEntries(),
            nameServers: () => places.nameServers(),
            ownInward: () => places.inward(this.#view?.state.nodeAddresses ?? []),
            askInward: (question) => connection.askInward(question),
            changed: (report) => this.#guarded(report),
          }
        : null,
      enforced: (result) => this.#enforced(result),
      failed: (error) => events.refused(error),
      egressProblems: (problems) => {
        this.#egressProblems = problems;
        events.changed();
      },
      egressHealth: (report) => this.#leases?.health(report),
    });
    await this.#startLeases(this.#enforcement.floating);
  }

  submit(target: Target): void {
    this.#enforcement?.submit(envelopeOf(target.wanted, target));
  }

  /**
   * Rules and interface groups stay; from now on, no rules are applied or repaired.
   * @param isLast the process ends, and leases stay for the next one
   */
  async stop(isLast: boolean): Promise<void> {
    // Leases that are alive need the rules: they may be removed next.
    await this.#leases?.stop(isLast);
    this.#leases = null;
    await this.#enforcement?.close();
    this.#enforcement = null;
    this.#guardReport = null;
    this.#parts.metrics.counts(null);
  }

  /** Removes all of nodewall's rules from the kernel, and its interface groups, after `stop`. */
  async clear(): Promise<Cleared> {
    const { options, config, log, dataplanes } = this.#parts;
    const { node, stateDir } = options;
    const { removed, hidden } = await removeAll(dataplanes.all);
    warnHidden(log, node, hidden);
    await this.close();
    await removeBootFiles(stateDir);
    const { interfaces } = await releaseInterfaceGroups(stateDir, config, log);
    return { removed, interfaces };
  }

  /** After `stop`: interface groups stay, and are not kept any more. */
  async close(): Promise<void> {
    await this.#interfaces?.close();
    this.#interfaces = null;
  }

  async #startLeases(floating: FloatingKernel | null): Promise<void> {
    if (floating === null) return;
    const { options, controller, connection, places, replicas, log, metrics, clock } = this.#parts;
    const { startLeases } = await import('./egress-leases.ts');
    this.#leases = await startLeases({
      node: options.node,
      controller,
      authorities: connection.authorities,
      log,
      metrics,
      clock,
      addresses: () => places.addresses,
      replicas,
      kernel: floating,
    });
    if (this.#view !== null) this.#leases.viewed(this.#view.state.egress ?? null);
  }

  #enforced(result: Enforced): void {
    this.#leases?.enforced(result.resolved.egress ?? null);
    this.#parts.events.enforced(result);
  }

  #guarded(report: GuardReport): void {
    this.#guardReport = report;
    this.#parts.events.changed();
  }
}

/** Guarded apply is on in a cluster, unless the configuration says otherwise. */
export function hasGuard({ guard }: Config): boolean {
  return guard.enabled ?? true;
}
