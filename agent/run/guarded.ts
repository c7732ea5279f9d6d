import type { NodeState } from '../../apis/compiled.ts';
import type { Config, FailsafeEntry, InwardProbeConfig } from '../../apis/config.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { Guard, type GuardOptions, type Rollback } from '../guard/guard.ts';
import { guardFile, NO_MEMORY, readGuardMemory } from '../guard/guard-file.ts';
import { type GuardReport, holdText } from '../guard/holds.ts';
import { InwardProbes } from '../guard/inward-probes.ts';
import { longestAttempt } from '../guard/probe-rounds.ts';
import { type Behind, configuredProbes, type OutwardProbe } from '../guard/probes.ts';
import type { RollbackRecord } from '../record/record.ts';
import type { RecordOutlet } from '../record/recorder.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { StateStore } from './state-store.ts';

type InwardAsk = ConstructorParameters<typeof InwardProbes>[0]['ask'];

/** The calls between an agent of either mode and guarded apply, both ways. */
export interface GuardHooks {
  /** The control plane as this agent reaches it. */
  readonly controlPlane: () => readonly OutwardProbe[];
  /** API servers and controllers, whatever the configuration's failsafe list is. */
  readonly failsafe: () => readonly FailsafeEntry[];
  /** Servers behind the address of the cluster's DNS. */
  readonly nameServers: () => readonly Behind[];
  /** Probes by other agents to the servers of the cluster that this node has. */
  readonly ownInward: () => readonly InwardProbeConfig[];
  /** Asks the controller for probes to this node; null: there is no controller. */
  readonly askInward: InwardAsk | null;
  readonly changed: (report: GuardReport) => void;
}

/** Guarded apply is on in a cluster, unless the configuration says otherwise. */
export function hasGuard({ guard }: Config): boolean {
  return guard.enabled ?? true;
}

interface GuardedOptions
  extends Pick<GuardOptions, 'config' | 'log' | 'clock' | 'next' | 'verify' | 'isInTime' | 'resolve'> {
  readonly options: { readonly node: string; readonly stateDir: string };
  readonly saved: StateStore;
  readonly metrics: AgentMetrics;
  readonly guard: GuardHooks | null;
  /** Whether the kernel has rules of an earlier run that it tried, or might have. */
  readonly wasTried: () => Promise<boolean>;
  /** The state must survive. */
  readonly confirmed: (state: NodeState) => void;
  readonly outlet: () => Promise<RecordOutlet>;
}

/** Guarded apply, with what an earlier run left; null: it is off. */
export async function openGuard(parts: GuardedOptions): Promise<Guard | null> {
  const { options, config, log, clock, saved, metrics, guard: hooks } = parts;
  if (hooks === null) return null;
  const { node, stateDir } = options;
  const file = guardFile(stateDir, log);
  const configured = keptFor(PROBES_FOR, clock, () => configuredProbes(config, hooks.nameServers()));
  const { askInward: ask } = hooks;
  const inward =
    ask === null
      ? null
      : new InwardProbes({
          probes: () => [...config.guard.inward, ...hooks.ownInward()],
          node,
          ask,
          clock,
          random: Math.random,
          log,
          milliseconds: longestAttempt(config.guard),
        });
  const [memory, confirmed] = [await readGuardMemory(file), await saved.readState()];
  // An agent that was killed at once had no time to remember what it tried.
  const wasTried = (memory?.trial ?? null) !== null || (await parts.wasTried());
  if (memory === null && confirmed === null) {
    // From now on the kernel may have rules that are not confirmed.
    file.save(NO_MEMORY);
    await file.flush();
  }
  return new Guard({
    ...parts,
    node,
    file,
    memory,
    confirmed,
    wasTried,
    controlPlane: hooks.failsafe,
    probes: () => [...hooks.controlPlane(), ...configured(), ...(inward?.all() ?? [])],
    inward,
    events: {
      save: parts.confirmed,
      changed(report) {
        metrics.guard(report.tried.length, report.held.length);
        hooks.changed(report);
      },
      rolledBack(rollback) {
        metrics.rolledBack(rollback.why.kind === 'probe' ? rollback.why.probe : rollback.why.kind);
        void writeRecord(parts, rollback);
      },
    },
  });
}

/**
 * Milliseconds: to list the DNS servers a file is read, and members of sets may change all the
 * time.
 */
const PROBES_FOR = 5_000;

function keptFor<T>(milliseconds: number, clock: WallClock, compute: () => T): () => T {
  let kept: { readonly value: T; readonly until: number } | null = null;
  return () => {
    if (kept === null || clock.now() >= kept.until)
      kept = { value: compute(), until: clock.now() + milliseconds };
    return kept.value;
  };
}

/** Whether an earlier run ended while a change was tried. */
export async function wasTried(stateDir: string, log: Log): Promise<boolean> {
  const memory = await readGuardMemory(guardFile(stateDir, log));
  return memory !== null && memory.trial !== null;
}

async function writeRecord(
  { options: { node }, clock, outlet }: GuardedOptions,
  rollback: Rollback,
): Promise<void> {
  const { why, policies } = rollback;
  const fault = why.kind === 'probe' ? why.fault : null;
  const record: RollbackRecord = {
    time: clock.date().toISOString(),
    node,
    event: 'rolledBack',
    reason: holdText(why),
    policies,
    ...(why.kind === 'probe' ? { probe: why.probe } : {}),
    ...(fault === null ? {} : { apiGroup: fault.apiGroup, policy: fault.policy, rule: fault.rule }),
  };
  const out = await outlet();
  out.write(record);
  out.close();
}
