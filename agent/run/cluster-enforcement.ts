import type { Config } from '../../apis/config.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { envelopeOf } from '../apply/envelope.ts';
import { removeBootFiles } from '../boot/boot-folder.ts';
import { logHidden, removeAll } from '../dataplane/dataplane.ts';
import type { PreparedExtension } from '../extension/agent-extension.ts';
import type { GuardReport } from '../guard/holds.ts';
import type { Destination } from '../receive/destinations.ts';
import type { Folded } from '../receive/fold.ts';
import type { AgentOptions } from './agent-options.ts';
import type { EnforcementTarget } from './agent-state.ts';
import type { ControlPlanePlaces } from './control-plane-places.ts';
import type { ControllerAccess, ControllerConnection } from './controller-connection.ts';
import { type Enforcement, type EnforcementOptions, startEnforcement } from './enforcement.ts';
import { type InterfaceGroups, keepInterfaceGroups, releaseInterfaceGroups } from './interface-groups.ts';

export interface ClusterEnforcementOptions
  extends Pick<
    EnforcementOptions,
    'config' | 'dataplanes' | 'saved' | 'log' | 'reports' | 'metrics' | 'flows' | 'clock'
  > {
  readonly options: AgentOptions;
  readonly controller: ControllerAccess;
  readonly connection: Pick<ControllerConnection, 'authorities' | 'askInward'>;
  readonly places: Pick<
    ControlPlanePlaces,
    'addresses' | 'apiServers' | 'inward' | 'nameServers' | 'probes' | 'allEntries'
  >;
  /** The controllers themselves. */
  readonly replicas: () => readonly Destination[];
  readonly extension: PreparedExtension;
  readonly events: ClusterEnforcementEvents;
}

export interface ClusterEnforcementEvents {
  /** The submitted state is in force, or what of it can be. */
  enforced(result: Enforced): void;
  /** The dataplane could apply nothing; it is tried again. */
  refused(error: Error): void;
  /** `guardReport` or `lacks` changed. */
  changed(): void;
}

/** The parts that `clear` removed. */
export interface Cleared {
  readonly removed: readonly string[];
  /** Names of the interfaces that were reset to group 0. */
  readonly interfaces: readonly string[];
}

/**
 * The enforcement of this node, in a cluster: rules, interface groups, and an extension. It starts
 * and stops as often in one run as the gate and `nodewall off` have it. The caller makes one call
 * of `start`, `stop`, `clear` and `close` at a time.
 */
export class ClusterEnforcement {
  readonly #options: ClusterEnforcementOptions;
  #view: Folded | null = null;
  /** Stay while the rules do, also over a stop. */
  #interfaces: InterfaceGroups | null = null;
  #enforcement: Enforcement | null = null;
  #guardReport: GuardReport | null = null;
  #lacks: readonly string[] = [];

  constructor(options: ClusterEnforcementOptions) {
    this.#options = options;
  }

  /** Null: guarded apply has nothing to say. */
  get guardReport(): GuardReport | null {
    return this.#guardReport;
  }

  /** The objects that the extension lacks in the kernel. */
  get lacks(): readonly string[] {
    return this.#lacks;
  }

  /** The controller's view; it is not enforced before it is submitted. */
  viewed(view: Folded): void {
    this.#view = view;
    this.#enforcement?.extension?.viewed(view.state);
  }

  /** The kernel's rules are not changed before the first state is submitted. */
  async start(): Promise<void> {
    this.#interfaces ??= await keepInterfaceGroups(this.#options);
    const { connection, places, events } = this.#options;
    this.#enforcement = await startEnforcement({
      ...this.#options,
      interfaces: this.#interfaces,
      apiServer: () => places.apiServers(),
      guard: hasGuard(this.#options.config)
        ? {
            controlPlane: () => places.probes(),
            failsafe: () => places.allEntries(),
            nameServers: () => places.nameServers(),
            ownInward: () => places.inward(this.#view?.state.nodeAddresses ?? []),
            askInward: (question) => connection.askInward(question),
            changed: (report) => this.#guarded(report),
          }
        : null,
      enforced: (result) => events.enforced(result),
      failed: (error) => events.refused(error),
      lacks: (problems) => {
        this.#lacks = problems;
        events.changed();
      },
    });
    await this.#join(this.#enforcement.extension);
  }

  submit(target: EnforcementTarget): void {
    this.#enforcement?.submit(envelopeOf(target.wanted, target));
  }

  /**
   * Rules and interface groups stay; from now on, no rules are applied or repaired.
   * @param isLast the process ends, and leases stay for the next one
   */
  async stop(isLast: boolean): Promise<void> {
    await this.#enforcement?.extension?.leave(isLast);
    await this.#enforcement?.close();
    this.#enforcement = null;
    this.#guardReport = null;
    this.#options.metrics.counts(null);
  }

  /** Removes all of nodewall's rules from the kernel, and its interface groups, after `stop`. */
  async clear(): Promise<Cleared> {
    const { options, config, log, dataplanes } = this.#options;
    const { node, stateDir } = options;
    const { removed, hidden } = await removeAll(dataplanes.all);
    logHidden(log, node, hidden);
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

  async #join(extension: Enforcement['extension']): Promise<void> {
    const { controller, connection, places, replicas } = this.#options;
    const { authorities } = connection;
    await extension?.join({ controller, authorities, addresses: () => places.addresses, replicas });
    if (this.#view !== null) extension?.viewed(this.#view.state);
  }

  #guarded(report: GuardReport): void {
    this.#guardReport = report;
    this.#options.events.changed();
  }
}

/** Guarded apply is on in a cluster, unless the configuration says otherwise. */
export function hasGuard({ guard }: Config): boolean {
  return guard.enabled ?? true;
}
