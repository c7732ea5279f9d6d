import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Family } from '../../lib/net/address.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Enforced, EnforcerEvents } from '../apply/enforcer.ts';
import { BootRules } from '../boot/boot-rules.ts';
import { type DataplaneOptions, type Dataplanes, holdRules, type Running } from '../dataplane/dataplane.ts';
import { dataplaneMigration } from '../dataplane/migration.ts';
import { withMemory } from '../egress/egress-memory.ts';
import type { FloatingKernel } from '../egress/floating-kernel.ts';
import type { EgressHealthReport } from '../egress/health/health-report.ts';
import type { WireGuardKeys } from '../egress/wireguard-keys.ts';
import type { Guard } from '../guard/guard.ts';
import type { AgentLog } from './agent-log.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions } from './agent-options.ts';
import { Established } from './established.ts';
import type { KeptFlows } from './flow-inventory.ts';
import { recording } from './flow-recording.ts';
import { FlushServer } from './flush-server.ts';
import { nameOverlay } from './fqdn-cache.ts';
import { type GuardHooks, openGuard } from './guarded.ts';
import type { InterfaceGroups } from './interface-groups.ts';
import { usedLinkGroups, withLastLinkGroups } from './link-groups.ts';
import { keepOpenSessions } from './open-sessions.ts';
import { podOverlays } from './pod-overlays.ts';
import type { StateStore } from './state-store.ts';

interface EnforcementParts {
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
  /** Called after each apply; `submitted` is the state as it was submitted. */
  readonly enforced: (result: Enforced, submitted: NodeState) => void;
  /** The network configuration of egress gateways lacks this from now on. */
  readonly egressProblems?: (problems: readonly string[]) => void;
  /** As in DataplaneOptions. */
  readonly wireguard?: WireGuardKeys | null;
  /** Called with the health of gateways that this node finds. */
  readonly egressHealth?: (report: EgressHealthReport) => void;
  /** Guarded apply; null: it is off. */
  readonly guard: GuardHooks | null;
  /** Nothing could be applied; it is tried again. */
  readonly failed: (error: Error) => void;
}

/** Stages 5 and 6 of an agent, for any source of states. */
export interface Enforcement {
  /** The configuration, with the link groups that saved rules use. */
  readonly config: Config;
  /** Null: egress gateways are off. */
  readonly floating: FloatingKernel | null;
  submit(state: NodeState): void;
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
export async function startEnforcement(parts: EnforcementParts): Promise<Enforcement> {
  const { options, log, dataplanes, interfaces, saved, clock, reports, metrics } = parts;
  const config = withLastLinkGroups(parts.config, await saved.readLinkGroups(), log);
  const records = recording({ ...parts, config });
  const { node, stateDir, once } = options;
  const boot = new BootRules({ stateDir, enabled: config.boot.enabled, log });
  const confirmed = (state: NodeState): void => {
    saved.state(state);
    boot.confirmed(state);
  };
  const established = new Established({ node, config, log, metrics, clock, outlet: records.outlet });
  const running = await runDataplane(parts, {
    config,
    readings: records.readings,
    enforced,
    whole: (state) => whole(state),
    lost: () => guard?.lost(),
    drifted: (differences) => established.drifted(differences),
  });
  await records.start(running.counts);
  const save = saving(parts, config, running);
  const pods = await podOverlays({ ...parts, config, running });
  const learnt = (state: NodeState): void => {
    records.learn(state);
    pods.submit(state);
  };
  const names = nameOverlay({ ...parts, config: config.names, stateDir, once, submit: learnt });
  const whole = (state: NodeState): NodeState => pods.over(names.withNames(state));
  const submitted = (state: NodeState): NodeState =>
    withoutDeadline(guard, names.withoutNames(pods.without(state)));
  const guard = await openGuard({
    ...{ ...parts, config, submit: names.submit, whole, outlet: records.outlet, confirmed },
    ...proofs(running),
  });
  function enforced(result: Enforced): void {
    reports.enforced(result);
    metrics.enforced(result);
    const wanted = submitted(result.wanted);
    parts.enforced(result, guard?.wantedOf(wanted) ?? wanted);
    const state = submitted(result.state);
    if (!isTried(result)) boot.inForce(state, running.bootFiles(result.state));
    if (guard === null) confirmed(state);
    else guard.enforced(state, result.state, lackingFamily(result));
    save(result);
    records.enforced(result, running.owners());
    established.enforced(result.state);
    pods.enforced(result.state);
  }
  const stopWatching = once ? async () => {} : running.watch();
  metrics.counts(records.totals);
  metrics.egressHealth(running.egressHealth ?? null);
  const flushes = new FlushServer({ node, stateDir, log, established, guard });
  if (!once) await flushes.listen();
  let grouped: Promise<void> = Promise.resolve();
  return {
    config,
    floating: running.floating,
    submit(state) {
      grouped = interfaces.nodeHas(state.nodeAddresses);
      if (guard === null) names.submit(state);
      else guard.submit(state);
    },
    holdsRules: () => holdRules(dataplanes, options.node, log),
    async idle() {
      await grouped;
      await guard?.idle();
      await names.idle();
      await running.enforcer.idle();
      if (once) await established.now();
    },
    async close() {
      await guard?.close();
      await stopWatching();
      await closeEach([running.deadline, running.enforcer, pods, flushes, established, names, records, boot]);
      await saved.flush();
    },
  };
}

interface Closable {
  close(): Promise<void>;
}

async function closeEach(all: readonly Closable[]): Promise<void> {
  for (const one of all) await one.close();
}

/** The questions of guarded apply to the kernel (GuardParts). */
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

function withoutDeadline(guard: Guard | null, state: NodeState): NodeState {
  return guard?.withoutDeadline(state) ?? state;
}

/** Files that are loaded at boot have no deadline. */
function isTried({ state }: Enforced): boolean {
  return state.deadline !== undefined;
}

/** The family that has rules of an earlier state. */
function lackingFamily({ failedFamily = null }: Enforced): Family | null {
  return failedFamily === null || failedFamily.isBare ? null : failedFamily.family;
}

/** Saves the parts of any state that the next start needs. */
function saving({ saved }: EnforcementParts, config: Config, running: Running) {
  let isFirst = true;
  return ({ state, change }: Enforced): void => {
    rememberEgress(running, saved);
    saved.linkGroups(usedLinkGroups(state, config));
    // The first comparison may have found out what the last run did not save.
    if (isFirst || change.changesStructure) saved.digests(running.digests());
    isFirst = false;
  };
}

interface DataplaneParts {
  readonly config: Config;
  readonly readings: DataplaneOptions['readings'];
  readonly enforced: EnforcerEvents['enforced'];
  /** The state with what this node adds. */
  readonly whole: (state: NodeState) => NodeState;
  /** A third party changed the rules, or packets were accepted past the deadline of a trial. */
  readonly lost: () => void;
  readonly drifted: (differences: readonly string[]) => void;
}

async function runDataplane(
  parts: EnforcementParts,
  { config, readings, enforced, whole, lost, drifted }: DataplaneParts,
): Promise<Running> {
  const { options, log, dataplanes, saved, clock, metrics } = parts;
  const running = dataplanes.chosen.run({
    config,
    log,
    digests: await saved.readDigests(),
    readings,
    deadlinePassed: lost,
    troubled: (trouble) => metrics.monitor('nf_tables', trouble),
    ...(await egressOptions(parts, () => rememberEgress(running, saved))),
    enforcer: {
      events: { ...failureEvents(parts, { lost, drifted }), enforced },
      clock,
      lastGood: async () => {
        const state = await saved.readState();
        return state === null ? null : whole(state);
      },
      settled: dataplaneMigration(dataplanes, options.node, log),
      beforeFirst: (track) => keepOpenSessions({ node: options.node, log, dataplanes, track }),
    },
  });
  return running;
}

function failureEvents(
  { reports, metrics, failed }: EnforcementParts,
  { lost, drifted }: Pick<DataplaneParts, 'lost' | 'drifted'>,
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
      lost();
      drifted(differences);
    },
  };
}

function rememberEgress({ egressMemory }: Running, saved: StateStore): void {
  if (egressMemory !== undefined) saved.egress(egressMemory());
}

type EgressOptions = Pick<
  DataplaneOptions,
  'lastEgress' | 'lostGateways' | 'wireguard' | 'egressProblems' | 'egressHealth'
>;

/**
 * None with the gate off, without reading anything.
 * @param changed what the node knows by itself is different now
 */
async function egressOptions(
  {
    config: { featureGates },
    saved,
    metrics,
    egressProblems,
    egressHealth,
    wireguard = null,
  }: EnforcementParts,
  changed: () => void,
): Promise<EgressOptions> {
  if (featureGates.EgressGateway !== true) return {};
  const last = (await saved.readState())?.egress ?? null;
  const memory = await saved.readEgress();
  return {
    lastEgress: last === null ? null : withMemory(last, memory),
    lostGateways: memory?.lost ?? [],
    wireguard,
    egressProblems(problems) {
      metrics.egressLacks(problems.length);
      egressProblems?.(problems);
    },
    egressHealth(report) {
      changed();
      egressHealth?.(report);
    },
  };
}
