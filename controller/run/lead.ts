import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { HeartbeatProcess } from '../heartbeat/heartbeat-process.ts';
import type { PeerPlaces } from '../heartbeat/messages.ts';
import { ImpactProcess } from '../impact/impact-process.ts';
import { egressVersions } from '../status/egress/egress-versions.ts';
import { antreaPolicyVersions, policyVersions } from '../status/policy-versions.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import type { PublishedSnapshot } from './compiling.ts';
import { type ControllerContext, hasEgress, type ProcessContext } from './controller-context.ts';
import { controllerHeartbeats } from './controller-heartbeats.ts';
import type { ControllerBus } from './events.ts';
import { GuardrailWatch } from './guardrail-watch.ts';
import { PolicyStatuses } from './policy-statuses.ts';
import { UnsetGates } from './unset-gates.ts';
import type { ControllerView } from './view.ts';

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
      versions: view.versions,
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
    if (context.gate !== null) this.statuses.keeper.gate(context.gate);
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
    this.#bus.on('egressPublished', (state) => statuses.publishEgress(state));
    this.#bus.on('reported', (report, before) => this.#reported(report, before));
    this.#bus.on('nodeEvent', (node, event) => statuses.nodeEvents.happened(node, event));
    this.#bus.on('leaseReleased', () => this.heartbeats.tryNow());
    this.#bus.on('gate', (name, value) => {
      this.unsetGates.set(name, value);
      if (name === 'NodeNetworkPolicy') statuses.keeper.gate(value);
    });
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
    if (hasEgress(this.#context)) this.statuses.reportEgress(report);
  }

  #makeHeartbeats({ identity }: ProcessContext): HeartbeatProcess {
    const { api, settings, watches } = this.#view;
    return controllerHeartbeats({
      context: this.#context,
      identity,
      service: CONTROLLER_ACCOUNT,
      token: api.token,
      annotations: () => settings.annotations(),
      peers: () => this.#places,
      changed: () => {
        if (this.isLeader()) watches.freshness.begin();
        else watches.freshness.end();
        this.#bus.life({ kind: 'changed' });
      },
      heartbeatAnswered: (taken) => this.statuses.owners.heartbeatAnswered(taken),
      failed: (error) => this.#bus.life({ kind: 'failed', error }),
    });
  }

  /** The policies and gateways as they are stored, with their statuses. */
  #follow(following: Following): Reflector[] {
    const { keeper, rollouts, egress } = this.statuses;
    const antrea = antreaPolicyVersions(following, (...change) => keeper.version(...change));
    const egressOnes = egressVersions(following, (...change) => egress.version(...change));
    return [
      policyVersions(following, (before, now) => {
        keeper.version(before, now);
        rollouts.version(before, now);
        this.#bus.emit('policyVersion', before, now);
      }),
      ...(this.#context.config.antreaStatus ? [antrea] : []),
      ...(hasEgress(this.#context) ? egressOnes : []),
    ];
  }
}
