import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { GateValue } from '../../apis/stream.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { HeartbeatProcess } from '../heartbeat/heartbeat-process.ts';
import type { PeerPlaces } from '../heartbeat/messages.ts';
import { ImpactProcess } from '../impact/impact-process.ts';
import { antreaPolicyVersions, policyVersions } from '../status/policy-versions.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import { UnsetGates } from './cluster-settings.ts';
import type { PublishedSnapshot } from './compiling.ts';
import type { ControllerContext, ProcessContext } from './controller-context.ts';
import { GuardrailWatch } from './guardrail-watch.ts';
import { PolicyStatuses } from './policy-statuses.ts';
import type { ControllerBus, ControllerView } from './view.ts';

/**
 * The election, and all that the leader decides and writes: statuses, rollouts, owners of
 * addresses, Events. Every replica computes it from the view, so that it can show it and lead at
 * any time; only the leader writes, through the API server.
 */
export class ControllerLead {
  readonly #context: ControllerContext;
  readonly #view: ControllerView;
  readonly #bus: ControllerBus;
  readonly heartbeats: HeartbeatProcess;
  readonly statuses: PolicyStatuses;
  readonly impact: ImpactProcess;
  readonly guardrails: GuardrailWatch;
  readonly unsetGates: UnsetGates;
  /** Addresses of the other controllers, and the CA that verifies them. */
  #places: PeerPlaces = { known: [], caBundle: undefined };

  constructor(context: ControllerContext, process: ProcessContext, bus: ControllerBus, view: ControllerView) {
    this.#context = context;
    this.#view = view;
    this.#bus = bus;
    const { log, config } = context;
    const { clock } = process;
    this.heartbeats = this.#makeHeartbeats(process);
    this.statuses = new PolicyStatuses({
      ...process,
      metrics: view.metrics,
      heartbeats: this.heartbeats,
      request: view.api.general.request,
      log,
      rollout: config.rollout,
      startupTaint: config.startupTaint,
      reports: view.reports,
      versions: view.versions,
      extension: view.extension,
      isLeader: () => this.isLeader(),
    });
    const { compiling, reports } = view;
    this.impact = new ImpactProcess(config, () => compiling.objects);
    const keeper = this.statuses.guardrails;
    this.guardrails = new GuardrailWatch({ impact: this.impact, compiling, keeper, config, clock, log });
    this.unsetGates = new UnsetGates({
      reports: () => reports.all(),
      log,
      clock,
      announce: (note) => this.statuses.gateUnset(note),
    });
    if (context.gate !== null) this.#gate(context.gate);
    this.#listen();
    view.watches.follow((following) => this.#follow(following));
  }

  /** Evaluated at the current time: true only while no other replica can have become leader. */
  isLeader(): boolean {
    return this.heartbeats.isLeader();
  }

  /** Must be called when the other controllers, or their CA, may have changed. */
  setPeers(places: PeerPlaces): void {
    this.#places = places;
    this.heartbeats.update();
  }

  /** Begins or stops to write. */
  lead(leads: boolean): Promise<void> {
    return this.statuses.lead(leads);
  }

  /** Ends all but the election and the writes. */
  close(): void {
    this.unsetGates.close();
    this.guardrails.close();
    this.impact.close();
  }

  #listen(): void {
    const { statuses } = this;
    this.#bus.on('published', (state) => this.#published(state));
    this.#bus.on('life', ({ kind }) => {
      if (kind === 'published') this.guardrails.evaluate();
    });
    this.#bus.on('reported', (report, before) => this.#reported(report, before));
    this.#bus.on('nodeEvent', (node, event) => statuses.nodeEvents.happened(node, event));
    this.#bus.on('leaseReleased', () => this.heartbeats.tryNow());
    this.#bus.on('gate', (name, value) => {
      this.unsetGates.set(name, value);
      if (name === 'NodeNetworkPolicy') this.#gate(value);
    });
  }

  /** The value of the feature gate NodeNetworkPolicy. */
  #gate(value: GateValue): void {
    this.statuses.keeper.gate(value);
    this.statuses.startupTaints.gate(value);
  }

  #published({ snapshot, compiled, revision }: PublishedSnapshot): void {
    const { statuses } = this;
    statuses.publish(snapshot, compiled, revision);
    statuses.rollouts.publish(snapshot.objects, compiled.policies);
    this.heartbeats.setNodes(this.#view.hub.nodes());
  }

  #reported(report: NodeReport, before: NodeReport | null): void {
    const { nodeEvents, keeper, rollouts } = this.statuses;
    nodeEvents.receive(report, before);
    keeper.report(report);
    rollouts.reported();
    this.statuses.startupTaints.reported(report.node);
    this.statuses.extension?.report(report);
  }

  /** The process of the Lease and of heartbeats, with the log lines of the leader election. */
  #makeHeartbeats({ identity }: ProcessContext): HeartbeatProcess {
    const { kubeConfig, options, config, log } = this.#context;
    const { api, settings, watches } = this.#view;
    const { leaseDuration, renewDeadline, retryPeriod } = config.leaderElection;
    const cluster = kubeConfig.getCurrentCluster();
    if (cluster === null) throw new Error('the kubeconfig has no current context with a cluster');
    const changed = (): void => {
      if (this.isLeader()) watches.freshness.begin();
      else watches.freshness.end();
      this.#bus.life({ kind: 'changed' });
    };
    /** The failure that was said last: each attempt after it fails in the same way. */
    let said = '';
    return new HeartbeatProcess({
      annotations: () => settings.annotations(),
      peers: () => this.#places,
      data: {
        identity,
        service: CONTROLLER_ACCOUNT,
        cluster,
        user: kubeConfig.getCurrentUser() ?? { name: '' },
        times: {
          duration: leaseDuration * 1000,
          renewDeadline: renewDeadline * 1000,
          retry: retryPeriod * 1000,
        },
        audiences: options.tokenAudiences.split(',').filter((audience) => audience !== ''),
      },
      events: {
        answered: (status) => api.token.answered(status),
        heartbeatAnswered: (taken) => this.statuses.extension?.heartbeatAnswered(taken),
        ended: ({ message }) => {
          const error = new CommandError(EXIT.refused, `${message}; the controller ends with it`);
          this.#bus.life({ kind: 'failed', error });
        },
        leading() {
          said = '';
          log.info('elected leader', { identity });
          changed();
        },
        lost(reason) {
          log.warn('no longer leader; watching on as standby', { identity, reason });
          changed();
        },
        leader(now) {
          said = '';
          if (now !== identity)
            log.info(now === '' ? 'no replica leads' : 'another replica leads', { leader: now });
        },
        failed(error) {
          log.log(said === error ? 'debug' : 'warn', 'cannot read or write the Lease; trying again', {
            error,
          });
          said = error;
        },
      },
    });
  }

  /** The policies and gateways as they are stored, with their statuses. */
  #follow(following: Following): Reflector[] {
    const { keeper, rollouts, extension } = this.statuses;
    const antrea = antreaPolicyVersions(following, (...change) => keeper.version(...change));
    return [
      policyVersions(following, (before, now) => {
        keeper.version(before, now);
        rollouts.version(before, now);
        this.#bus.emit('policyVersion', before, now);
      }),
      ...(this.#context.config.antreaStatus ? [antrea] : []),
      ...(extension?.versions(following) ?? []),
    ];
  }
}
