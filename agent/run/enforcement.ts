import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { PlatformEntry } from '../../apis/platform.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Enforced, EnforcerEvents } from '../apply/enforcer.ts';
import { type Envelope, envelopeOf } from '../apply/envelope.ts';
import { BootRules, removeBootFiles } from '../boot/boot-folder.ts';
import {
  type DataplaneOptions,
  type Dataplanes,
  dataplaneMigration,
  holdRules,
  logHidden,
  type Running,
  removeAll,
} from '../dataplane/dataplane.ts';
import type { AgentExtension, ExtensionContext, PreparedExtension } from '../extension/agent-extension.ts';
import type { GuardReport } from '../guard/holds.ts';
import type { Destination } from '../receive/destinations.ts';
import type { Folded } from '../receive/fold.ts';
import type { AgentLog } from './agent-log.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions } from './agent-options.ts';
import type { EnforcementTarget } from './agent-state.ts';
import type { ControlPlanePlaces } from './control-plane-places.ts';
import type { ControllerAccess, ControllerConnection } from './controller-connection.ts';
import { Established, keepOpenSessions } from './established.ts';
import type { KeptFlows } from './flow-inventory.ts';
import { FlushServer } from './flush-server.ts';
import { type GuardHooks, hasGuard, openGuard } from './guarded.ts';
import { type InterfaceGroups, keepInterfaceGroups, releaseInterfaceGroups } from './interface-groups.ts';
import { interfaceOverlay, type Layer, Layers, nameOverlay, type PassOn } from './layers.ts';
import { recording } from './recording.ts';
import { type StateStore, usedLinkGroups, withLastLinkGroups } from './state-store.ts';

interface EnforcementOptions {
  readonly options: Pick<AgentOptions, 'node' | 'stateDir' | 'once'>;
  readonly config: Config;
  readonly log: Log;
  readonly dataplanes: Dataplanes;
  readonly interfaces: InterfaceGroups;
  readonly saved: StateStore;
  readonly clock: WallClock;
  readonly reports: AgentLog;
  readonly metrics: AgentMetrics;
  readonly flows: KeptFlows | null;
  /** The API server's addresses, as far as known: names behind a wildcard never have them. */
  readonly apiServer: () => readonly string[];
  /** Called after each apply. */
  readonly enforced: (result: Enforced) => void;
  /** Null: there is none. */
  readonly extension: PreparedExtension | null;
  /** As in ExtensionContext. */
  readonly lacks?: ExtensionContext['lacks'];
  readonly unready?: ExtensionContext['unready'];
  /** Guarded apply; null: it is off. */
  readonly guard: GuardHooks | null;
  /** Nothing could be applied; it is tried again. */
  readonly failed: (error: Error) => void;
}

/** Stages 5 and 6 of an agent, for any source of states. */
export interface Enforcement {
  /** The configuration, with the link groups that saved rules use. */
  readonly config: Config;
  /** Null: its feature gate is off. */
  readonly extension: AgentExtension | null;
  submit(envelope: Envelope): void;
  /** Whether the kernel holds rules of nodewall that packets pass through. */
  holdsRules(): Promise<boolean>;
  /** Resolves once the submitted state is in force, or was refused. */
  idle(): Promise<void>;
  /** Rules stay. From now on, none are applied or repaired. */
  close(): Promise<void>;
}

/**
 * Starts everything around the enforcer: saving, recording, counting, name resolution, watches. The
 * kernel is not changed before the first state.
 */
export async function startEnforcement(parts: EnforcementOptions): Promise<Enforcement> {
  const { options, log, dataplanes, interfaces, saved, clock, reports, metrics } = parts;
  const config = withLastLinkGroups(parts.config, await saved.readLinkGroups(), log);
  const records = recording({ ...parts, config });
  const { node, stateDir, once } = options;
  const boot = new BootRules({ stateDir, enabled: config.boot.enabled, log });
  const confirmed = (state: NodeState): void => {
    saved.state(state);
    boot.confirmed(state);
  };
  const extension = await openExtension(parts, config);
  const { outlet, readings } = records;
  const established = new Established({ node, config, log, metrics, clock, outlet, extension });
  const layers = new Layers();
  const running = await runDataplane(parts, { config, readings, layers, established, extension });
  await records.start(running.counts);
  await extension?.start();
  // Each layer stands before those that are there: an envelope passes them from the last one up.
  layers.put({
    submit: (envelope) => running.enforcer.submit(envelope),
    idle: () => running.enforcer.idle(),
  });
  const local = layers.put(interfaceOverlay(interfaces, layers.next));
  const added = extension === null ? null : layers.put(await extension.layer(layers.next));
  const save = saving(parts, config, running);
  layers.put(recorded({ records, established, save, running, extension }, layers.next));
  const names = layers.put(
    nameOverlay({ ...parts, config: config.names, stateDir, once, next: layers.next }),
  );
  const resolve = (state: NodeState): NodeState => layers.resolve(state);
  const guard = await openGuard({
    ...parts,
    config,
    next: layers.next,
    resolve,
    outlet,
    confirmed,
    ...proofs(running),
  });
  layers.put(guard ?? unguarded(confirmed, layers.next));
  layers.put({
    submit: layers.next,
    enforced(result) {
      reports.enforced(result);
      metrics.enforced(result);
      parts.enforced(result);
      if (!isTried(result)) boot.inForce(result.plain, running.bootFiles(result.resolved));
    },
  });
  const enter = layers.next;
  const stopWatching = once ? async () => {} : running.watch();
  metrics.counts(records.totals);
  const flushes = new FlushServer({ node, stateDir, log, established, guard });
  if (!once) await flushes.listen();
  let grouped: Promise<void> = Promise.resolve();
  return {
    config,
    extension,
    submit(envelope) {
      grouped = interfaces.nodeHas(envelope.wanted.nodeAddresses);
      enter(envelope);
    },
    holdsRules: () => holdRules(dataplanes, options.node, log),
    async idle() {
      await grouped;
      await layers.idle();
      if (once) await established.now();
    },
    async close() {
      await guard?.close();
      await stopWatching();
      const first = [running.deadline, running.enforcer, local, added ?? [], flushes, established, names];
      await closeEach([...first, extension ?? [], records, boot].flat());
      await saved.flush();
    },
  };
}

interface RecordedOptions {
  readonly records: ReturnType<typeof recording>;
  readonly established: Established;
  readonly save: (result: Enforced) => void;
  readonly running: Pick<Running, 'owners'>;
  readonly extension: AgentExtension | null;
}

/** Saves and counts what is in force, before pods that wait for it start. */
function recorded({ records, established, save, running, extension }: RecordedOptions, next: PassOn): Layer {
  return {
    submit(envelope) {
      records.learn(envelope.resolved);
      next(envelope);
    },
    enforced(result) {
      extension?.enforced(result);
      save(result);
      records.enforced(result, running.owners());
      established.enforced(result.resolved);
    },
  };
}

/** Without guarded apply, what is in force is confirmed. */
function unguarded(confirmed: (state: NodeState) => void, next: PassOn): Layer {
  return { submit: next, enforced: ({ plain }) => confirmed(plain) };
}

interface Closable {
  close(): Promise<void> | void;
}

async function closeEach(all: readonly Closable[]): Promise<void> {
  for (const one of all) await one.close();
}

/** The questions of guarded apply to the kernel (GuardOptions). */
function proofs({ enforcer, deadline }: Pick<Running, 'enforcer' | 'deadline'>) {
  return {
    async verify() {
      enforcer.verify();
      await enforcer.idle();
    },
    isInTime: () => deadline.check(),
    wasTried: () => deadline.isLeft(),
  };
}

/** Files that are loaded at boot have no deadline. */
function isTried({ resolved }: Enforced): boolean {
  return resolved.deadline !== undefined;
}

/** Saves the parts of any state that the next start needs. */
function saving({ saved }: EnforcementOptions, config: Config, running: Running) {
  let isFirst = true;
  return ({ resolved, change }: Enforced): void => {
    saved.linkGroups(usedLinkGroups(resolved, config));
    // The first comparison may have found out what the last run did not save.
    if (isFirst || change.changesStructure) saved.digests(running.digests());
    isFirst = false;
  };
}

interface RunDataplaneOptions {
  readonly config: Config;
  readonly readings: DataplaneOptions['readings'];
  readonly layers: Layers;
  readonly established: Established;
  readonly extension: AgentExtension | null;
}

async function runDataplane(
  parts: EnforcementOptions,
  { config, readings, layers, established, extension }: RunDataplaneOptions,
): Promise<Running> {
  const { options, log, dataplanes, saved, clock, metrics } = parts;
  return dataplanes.chosen.run({
    config,
    log,
    digests: await saved.readDigests(),
    readings,
    deadlinePassed: () => layers.lost(),
    troubled: (trouble) => metrics.monitor('nf_tables', trouble),
    extension: extension?.dataplane ?? null,
    enforcer: {
      events: { ...failureEvents(parts, layers, established), enforced: (result) => layers.enforced(result) },
      clock,
      lastGood: async () => {
        const state = await saved.readState();
        return state === null ? null : { plain: state, resolved: layers.resolve(state) };
      },
      settled: dataplaneMigration(dataplanes, options.node, log),
      beforeFirst: (track) => keepOpenSessions({ node: options.node, log, dataplanes, track }),
    },
  });
}

function failureEvents(
  { reports, metrics, failed }: EnforcementOptions,
  layers: Layers,
  established: Established,
): Omit<EnforcerEvents, 'enforced'> {
  return {
    failed(error, retryIn) {
      reports.failed(error, retryIn);
      metrics.failed();
      failed(error);
    },
    unrecorded: (error) => reports.unrecorded(error),
    drifted(differences) {
      reports.drifted(differences);
      metrics.drifted();
      layers.lost();
      established.drifted(differences);
    },
  };
}

async function openExtension(
  { extension, lacks = () => {}, unready = () => {}, ...context }: EnforcementOptions,
  config: Config,
): Promise<AgentExtension | null> {
  return (await extension?.open({ ...context, config, lacks, unready })) ?? null;
}

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

interface ClusterEnforcementEvents {
  /** The submitted state is in force, or what of it can be. */
  enforced(result: Enforced): void;
  /** The dataplane could apply nothing; it is tried again. */
  refused(error: Error): void;
  /** `guardReport` or `lacks` changed. */
  changed(): void;
}

/** The parts that `clear` removed. */
interface Cleared {
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

  /** As InterfaceGroups has it; null too while nothing is enforced. */
  get unseenProxy(): string | null {
    return this.#interfaces?.unseenProxy ?? null;
  }

  /** The platform's entries of the failsafe list; null while nothing is enforced. */
  get platform(): readonly PlatformEntry[] | null {
    return this.#interfaces?.platform.now() ?? null;
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
