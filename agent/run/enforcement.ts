import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { systemClock, type WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import type { Enforced, EnforcerEvents } from '../apply/enforcer.ts';
import type { Envelope } from '../apply/envelope.ts';
import { BootRules } from '../boot/boot-folder.ts';
import {
  type DataplaneOptions,
  type Dataplanes,
  dataplaneMigration,
  holdRules,
  type Running,
} from '../dataplane/dataplane.ts';
import type { AgentExtension, ExtensionContext, PreparedExtension } from '../extension/agent-extension.ts';
import type { Owners } from '../record/accounting.ts';
import { type CountSource, RuleCounters } from '../record/counters.ts';
import { recordsFile } from '../record/record-files.ts';
import { Recorder, type RecordOutlet } from '../record/recorder.ts';
import type { AgentLog } from './agent-log.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions } from './agent-options.ts';
import { Established, keepOpenSessions } from './established.ts';
import type { KeptFlows } from './flow-inventory.ts';
import { FlushServer } from './flush-server.ts';
import { type GuardHooks, openGuard } from './guarded.ts';
import type { InterfaceGroups } from './interface-groups.ts';
import { type Layer, Layers, localPodsOverlay, nameOverlay, type PassOn } from './layers.ts';
import { type StateStore, usedLinkGroups, withLastLinkGroups } from './state-store.ts';
import { loadAddon } from './with-kernel.ts';

export interface EnforcementOptions {
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
  const records = recording(parts, config);
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
  const local = layers.put(localPodsOverlay(interfaces.localPods, layers.next));
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

const NOWHERE: RecordOutlet = { write() {}, close() {} };

/**
 * The flow log and the counters of an agent. `agent --once` counts, but records nothing, because no
 * process stays to read the kernel's log messages.
 */
function recording({ options, log, interfaces, metrics, flows }: EnforcementOptions, config: Config) {
  const { node, stateDir, once } = options;
  const counters = new RuleCounters({ file: stateFile(stateDir, 'counters.json'), log, running: !once });
  const file = recordsFile(stateDir, config) ?? config.log.file;
  let records: Recorder | null = null;
  return {
    /** Before anything is applied, and before the guard, which may record a rollback at once. */
    async start(source: CountSource): Promise<void> {
      await counters.start(source);
      if (once) return;
      const { Nflog } = await loadAddon();
      records = new Recorder({
        node,
        config,
        file,
        interfaces,
        counters,
        recorded: flows?.recorded,
        log,
        clock: systemClock,
        lost: (count) => metrics.recordsLost(count),
        openNflog: (options, listener) => new Nflog(options, listener),
      });
    },
    readings: counters.readings,
    /** Announces a state that is about to be in force. */
    learn: (state: NodeState) => records?.learn(state),
    enforced({ resolved: state }: Enforced, owners: Owners | null): void {
      if (owners !== null) counters.enforced(owners, state);
      records?.enforced(state);
    },
    totals: () => counters.totals(),
    /** For records other than those of packets; with `--once` they go nowhere. */
    outlet: async (): Promise<RecordOutlet> => (await records?.outlet()) ?? NOWHERE,
    async close(): Promise<void> {
      await records?.close();
      await counters.close();
    },
  };
}
