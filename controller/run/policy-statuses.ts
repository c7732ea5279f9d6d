import type { Compiled } from '../../apis/compiled.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { RolloutSettings } from '../../apis/rollout.ts';
import type { GuardrailStatus } from '../../apis/validate/guardrail.ts';
import type { Log } from '../../lib/process/log.ts';
import { AddressOwners } from '../egress/owners/address-owners.ts';
import type { LeaseOrders } from '../extension/extension.ts';
import type { HeartbeatProcess } from '../heartbeat/heartbeat-process.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { RolloutKeeper } from '../rollout/keeper.ts';
import type { NodeVersions } from '../rollout/node-versions.ts';
import { AntreaController, type AntreaStatus } from '../status/antrea-status.ts';
import { DEFINITION_TARGET, DefinitionKeeper, type DefinitionPatch } from '../status/definition-keeper.ts';
import type { EgressStatus } from '../status/egress/egress-status.ts';
import { type EgressState, EgressStatusKeeper } from '../status/egress/keeper.ts';
import { FailureEvents } from '../status/failure-events.ts';
import { GUARDRAIL_TARGET, GUARDRAIL_TIMES, GuardrailKeeper } from '../status/guardrail-keeper.ts';
import { StatusKeeper } from '../status/keeper.ts';
import { NodeEvents } from '../status/node-events.ts';
import { rolloutWriter } from '../status/policy-versions.ts';
import {
  ANTREA_TARGET,
  POLICY_TARGET,
  type StatusTarget,
  type StatusWriter,
  statusWriter,
  type WriterEvents,
  type WriteTimes,
} from '../status/writer.ts';
import type { Snapshot } from '../watch/source.ts';
import type { ProcessContext } from './controller-context.ts';
import type { ControllerMetrics } from './controller-metrics.ts';

export interface PolicyStatusesOptions extends Pick<ProcessContext, 'clock' | 'identity'> {
  readonly request: KubeApi;
  readonly metrics: Pick<ControllerMetrics, 'statusWritten' | 'statusFailed' | 'slotMoved'>;
  readonly log: Log;
  /** As configured. */
  readonly rollout: RolloutSettings | null;
  readonly versions: Pick<NodeVersions, 'served'>;
  /** Whether it is certain that no other process leads. */
  readonly isLeader: () => boolean;
  readonly heartbeats: Pick<HeartbeatProcess, 'now' | keyof LeaseOrders>;
}

/** Addresses of a slot in a log line. */
const MOST_LOGGED = 10;

/** Their names are their paths. */
const EGRESS_TARGET: StatusTarget<EgressStatus> = { path: (name) => name, toPatch: (status) => status };

/**
 * Milliseconds: a floating address that waits for its next owner has none; the limit is for nodes
 * whose readiness changes all the time.
 */
const GATEWAY_TIMES: WriteTimes = { between: 5, betweenOfOne: 100, firstRetry: 200, longestRetry: 5_000 };

/** Writes the statuses of policies, and events on them, while this replica leads. */
export class PolicyStatuses {
  readonly keeper: StatusKeeper;
  readonly owners: AddressOwners;
  readonly egress: EgressStatusKeeper;
  readonly rollouts: RolloutKeeper;
  readonly guardrails: GuardrailKeeper;
  readonly definitions: DefinitionKeeper;
  /** Events by the reports of nodes. */
  readonly nodeEvents: NodeEvents;
  readonly #failures: FailureEvents;
  readonly #isLeader: () => boolean;
  readonly #writer: StatusWriter;
  readonly #antreaWriter: StatusWriter<AntreaStatus>;
  readonly #antrea: AntreaController;
  readonly #egressWriter: StatusWriter<EgressStatus>;
  readonly #gatewayWriter: StatusWriter<EgressStatus>;
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
    this.#egressWriter = statusWriter(asLeader, clock, events, EGRESS_TARGET);
    this.#gatewayWriter = statusWriter(asLeader, clock, events, EGRESS_TARGET, GATEWAY_TIMES);
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
    this.guardrails = new GuardrailKeeper({ writer: this.#guardrailWriter, events: failures });
    this.#definitionWriter = statusWriter(asLeader, clock, events, DEFINITION_TARGET, GUARDRAIL_TIMES);
    this.definitions = new DefinitionKeeper({
      writer: this.#definitionWriter,
      events: failures,
      request,
      clock,
      log,
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
    this.owners = this.#makeOwners(options);
    this.egress = new EgressStatusKeeper({
      writer: this.#egressWriter,
      gatewayWriter: this.#gatewayWriter,
      clock,
      owners: this.owners,
    });
  }

  #makeOwners({ clock, heartbeats, metrics, log }: PolicyStatusesOptions): AddressOwners {
    return new AddressOwners({
      clock,
      granter: heartbeats,
      heartbeatClock: heartbeats,
      decided: (decisions) => this.egress.decided(decisions),
      moved(gateway, moves) {
        for (const { slot, from, to, epoch, addresses, reason } of moves) {
          metrics.slotMoved(reason);
          const fields = {
            gateway,
            slot,
            from,
            to,
            epoch,
            reason,
            addresses: addresses.slice(0, MOST_LOGGED),
          };
          log.info('floating addresses move to another node', { stage: 'status', ...fields });
        }
      },
    });
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
  }

  publishEgress(state: EgressState): void {
    this.owners.publish(state.compiled);
    this.egress.publish(state);
  }

  /** A report, for what depends on egress gateways. */
  reportEgress(report: NodeReport): void {
    if (this.owners.report(report)) this.egress.reported();
  }

  /** If false, drops pending writes. */
  async lead(leads: boolean): Promise<void> {
    this.rollouts.lead(leads);
    this.owners.lead(leads);
    this.#antrea.lead(leads);
    const keepers = [this.keeper, this.egress, this.guardrails, this.definitions];
    await Promise.all(keepers.map((one) => one.lead(leads)));
  }

  /** Announces that a feature gate has no value, while this replica leads. */
  gateUnset(note: string): boolean {
    if (!this.#isLeader()) return false;
    this.#failures.gateUnset(note);
    return true;
  }

  /** Counts of floating addresses for the metrics. */
  egressLeases(): ReturnType<AddressOwners['counts']> & { readonly nodesNotReady: number } {
    return { ...this.owners.counts(), nodesNotReady: this.owners.nodesNotReady() };
  }

  /** The number of queued statuses. */
  waiting(): number {
    const egress = this.#egressWriter.waiting() + this.#gatewayWriter.waiting();
    return (
      egress +
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
