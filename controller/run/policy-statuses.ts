import type { Compiled } from '../../apis/compiled.ts';
import type { RolloutSettings } from '../../apis/rollout.ts';
import type { GuardrailStatus } from '../../apis/validate/guardrail.ts';
import type { Log } from '../../lib/process/log.ts';
import type { ControllerExtension, LeadExtension, LeadOptions } from '../extension/extension.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { NodeReports } from '../publish/node-reports.ts';
import { RolloutKeeper } from '../rollout/keeper.ts';
import type { NodeVersions } from '../rollout/node-versions.ts';
import { AntreaController, type AntreaStatus } from '../status/antrea-status.ts';
import { DEFINITION_TARGET, DefinitionKeeper, type DefinitionPatch } from '../status/definition-keeper.ts';
import { FailureEvents } from '../status/failure-events.ts';
import { GUARDRAIL_TARGET, GUARDRAIL_TIMES, GuardrailKeeper } from '../status/guardrail-keeper.ts';
import { StatusKeeper } from '../status/keeper.ts';
import { NodeEvents } from '../status/node-events.ts';
import { rolloutWriter } from '../status/policy-versions.ts';
import { StartupTaints } from '../status/startup-taints.ts';
import {
  ANTREA_TARGET,
  POLICY_TARGET,
  type StatusWriter,
  statusWriter,
  type WriterEvents,
} from '../status/writer.ts';
import type { Snapshot } from '../watch/source.ts';
import type { ProcessContext } from './controller-context.ts';
import type { ControllerMetrics } from './controller-metrics.ts';

interface PolicyStatusesOptions extends Pick<ProcessContext, 'clock' | 'identity'> {
  readonly request: KubeApi;
  readonly metrics: Pick<ControllerMetrics, 'statusWritten' | 'statusFailed' | 'slotMoved'>;
  readonly log: Log;
  /** As configured. */
  readonly rollout: RolloutSettings | null;
  /** As configured. */
  readonly startupTaint: string;
  readonly reports: Pick<NodeReports, 'get'>;
  readonly versions: Pick<NodeVersions, 'served'>;
  /** Whether it is certain that no other process leads. */
  readonly isLeader: () => boolean;
  readonly heartbeats: LeadOptions['heartbeats'];
  /** Null: its feature gate is off. */
  readonly extension: Pick<ControllerExtension, 'leader'> | null;
}

/** Writes the statuses of policies, and events on them, while this replica leads. */
export class PolicyStatuses {
  readonly keeper: StatusKeeper;
  /** Null: its feature gate is off. */
  readonly extension: LeadExtension | null;
  readonly rollouts: RolloutKeeper;
  readonly guardrails: GuardrailKeeper;
  readonly definitions: DefinitionKeeper;
  readonly startupTaints: StartupTaints;
  /** Events by the reports of nodes. */
  readonly nodeEvents: NodeEvents;
  readonly #failures: FailureEvents;
  readonly #isLeader: () => boolean;
  readonly #writer: StatusWriter;
  readonly #antreaWriter: StatusWriter<AntreaStatus>;
  readonly #antrea: AntreaController;
  readonly #guardrailWriter: StatusWriter<GuardrailStatus>;
  readonly #definitionWriter: StatusWriter<DefinitionPatch>;

  constructor(options: PolicyStatusesOptions) {
    const { request, clock, identity, metrics, log, isLeader } = options;
    const events: WriterEvents = {
      written: () => metrics.statusWritten(),
      failed(policy, error, retryIn) {
        metrics.statusFailed();
        log.warn('cannot write the status of a policy; trying again', {
          stage: 'status',
          policy,
          error: messageOf(error),
          retryIn,
        });
      },
    };
    this.#writer = statusWriter(request, clock, events, POLICY_TARGET);
    const asLeader = onlyAsLeader(request, isLeader);
    const failures = new FailureEvents({
      request,
      clock,
      identity,
      failed: (error) => void log.warn('cannot write an Event', { stage: 'status', error: messageOf(error) }),
    });
    this.#failures = failures;
    this.#isLeader = isLeader;
    this.#guardrailWriter = statusWriter(asLeader, clock, events, GUARDRAIL_TARGET, GUARDRAIL_TIMES);
    this.nodeEvents = new NodeEvents({ events: failures, isLeader, now: clock.now });
    this.guardrails = new GuardrailKeeper({
      writer: this.#guardrailWriter,
      events: failures,
      clock,
      request,
    });
    this.#definitionWriter = statusWriter(asLeader, clock, events, DEFINITION_TARGET, GUARDRAIL_TIMES);
    this.definitions = new DefinitionKeeper({
      writer: this.#definitionWriter,
      events: failures,
      request,
      clock,
      log,
    });
    this.startupTaints = new StartupTaints({
      taint: options.startupTaint,
      request: asLeader,
      clock,
      log,
      report: (node) => options.reports.get(node),
    });
    this.#antreaWriter = statusWriter(asLeader, clock, events, ANTREA_TARGET);
    this.keeper = new StatusKeeper({
      writer: this.#writer,
      antreaWriter: this.#antreaWriter,
      events: failures,
      clock,
    });
    this.#antrea = new AntreaController({
      request,
      clock,
      log,
      isNeeded: () => this.keeper.hasAntreaPolicies,
      changed: (isAbsent) => this.keeper.setAntreaAbsent(isAbsent),
    });
    this.rollouts = this.#makeRollouts(options, failures);
    const { extension, heartbeats } = options;
    const { slotMoved } = metrics;
    this.extension =
      extension?.leader({ request: asLeader, clock, events, heartbeats, slotMoved, log }) ?? null;
  }

  #makeRollouts(options: PolicyStatusesOptions, failures: FailureEvents): RolloutKeeper {
    const { request, clock, log, isLeader } = options;
    return new RolloutKeeper({
      defaults: options.rollout,
      versions: options.versions,
      outcome: (node, generations) => this.keeper.outcome(node, generations),
      write: rolloutWriter(onlyAsLeader(request, isLeader)),
      decided(policy, { progress = '', message = '', decision }) {
        log.info('rollout decided', { stage: 'status', policy: policy.name, progress });
        const isBad = decision?.pausedBy === 'Failures';
        const reason = `Rollout${decision?.state ?? ''}`;
        failures.rollout(policy, {
          type: isBad ? 'Warning' : 'Normal',
          reason,
          note: `${progress}: ${message}`,
        });
      },
      failed: (policy, error) =>
        void log.warn('cannot write the rollout of a policy; trying again', {
          stage: 'status',
          policy,
          error: messageOf(error),
        }),
      clock,
    });
  }

  /** As that of a StatusKeeper. */
  publish(snapshot: Snapshot, compiled: Compiled, revision: string): void {
    this.keeper.publish(snapshot, compiled, revision);
    this.definitions.publish(snapshot);
    this.startupTaints.publish(snapshot.objects.nodes);
  }

  /** If false, drops pending writes. What the extension decides waits for no policy's status. */
  async lead(leads: boolean): Promise<void> {
    this.rollouts.lead(leads);
    const decided = this.extension?.lead(leads);
    this.#antrea.lead(leads);
    const keepers = [this.keeper, this.guardrails, this.definitions, this.startupTaints];
    await Promise.all([decided, ...keepers.map((one) => one.lead(leads))]);
  }

  /** Announces that a feature gate has no value, while this replica leads. */
  gateUnset(note: string): boolean {
    if (!this.#isLeader()) return false;
    this.#failures.gateUnset(note);
    return true;
  }

  /** The number of queued statuses. */
  waiting(): number {
    return (
      (this.extension?.waiting() ?? 0) +
      this.#writer.waiting() +
      this.#antreaWriter.waiting() +
      this.#guardrailWriter.waiting() +
      this.#definitionWriter.waiting()
    );
  }
}

/**
 * Asks before each request. A process that was stopped for a while does not know by its timers that
 * another one leads, and would bring back former owners and addresses.
 */
export function onlyAsLeader(request: KubeApi, isLeader: () => boolean): KubeApi {
  return async (options) => {
    if (!isLeader()) throw new Error('another controller may lead');
    return await request(options);
  };
}
