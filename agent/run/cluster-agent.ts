import { networkInterfaces } from 'node:os';
import { emptyNodeState, type NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { type NodeReport, toEndpoints, toWrittenEndpoints } from '../../apis/stream.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import { EXIT, type ExitStatus } from '../../lib/process/exit.ts';
import type { Log } from '../../lib/process/log.ts';
import { exitInTime, untilStopped } from '../../lib/process/stopped.ts';
import { VERSION } from '../../lib/process/version.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { removeBootFiles } from '../boot/boot-folder.ts';
import { type Dataplanes, holdRules, removeAll, warnHidden } from '../dataplane/dataplane.ts';
import type { FloatingKernel } from '../egress/floating-kernel.ts';
import type { GuardReport } from '../guard/guard.ts';
import { lookupOrLast } from '../receive/address-lookup.ts';
import type { ApiServer } from '../receive/api-server.ts';
import { askInward } from '../receive/ask-inward.ts';
import type { Authorities } from '../receive/authorities.ts';
import { type ControllerClient, controllerClient } from '../receive/controller-client.ts';
import { FoldError, fold } from '../receive/fold.ts';
import { hostAddresses } from '../receive/host-addresses.ts';
import type { Outage } from '../receive/outage.ts';
import { Reporter } from '../receive/reporter.ts';
import { ControllerStream, type StreamEvents } from '../receive/stream.ts';
import { watchAddresses } from './address-watch.ts';
import { AgentLog } from './agent-log.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions } from './agent-options.ts';
import {
  type AgentState,
  followedGate,
  initialState,
  nextSteps,
  type Step,
  type Why,
} from './agent-state.ts';
import { type AgentEvent, type Effect, type TimerName, transition } from './agent-transition.ts';
import { controllerAuthorities, loggedOutage } from './api-access.ts';
import { type ClusterFile, type ClusterMemory, clusterFile } from './cluster-file.ts';
import { ContactLog } from './contact-log.ts';
import { ControlPlanePlaces } from './control-plane-places.ts';
import type { EgressLeases } from './egress-leases.ts';
import { type Enforcement, startEnforcement } from './enforcement.ts';
import { wasTried } from './guarded.ts';
import { type InterfaceGroups, keepInterfaceGroups, releaseInterfaceGroups } from './interface-groups.ts';
import { MetricsAnswerer } from './metrics-answer.ts';
import { nodeReport } from './node-report.ts';
import type { OffSwitch } from './off-switch.ts';
import { PeerProber } from './peer-prober.ts';
import { type StateStore, stateStore } from './state-store.ts';
import { placeOf } from './switch-off.ts';

/** The controller, from the command line. */
export interface ControllerOptions {
  readonly url: URL;
  readonly tokenFile: string;
  /** Null: the CA is read from the API server. */
  readonly caFile: string | null;
}

interface Parts {
  readonly options: AgentOptions;
  readonly controller: ControllerOptions;
  /** Null: this agent has no access to the API server. */
  readonly api: ApiServer | null;
  readonly off: OffSwitch;
  readonly config: Config;
  /** False if the feature gate is off on this machine, whatever the cluster's gate is. */
  readonly isAllowed: boolean;
  readonly egress: EgressAbility;
  readonly log: Log;
  readonly dataplanes: Dataplanes;
  readonly metrics: AgentMetrics;
  readonly clock: WallClock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
}

export interface EgressAbility {
  /**
   * Why this machine can't enforce what a view says of egress gateways; null: it can, if `config`
   * has the feature gate.
   */
  readonly refused: string | null;
}

/** The values that earlier runs saved in the state directory. */
interface Saved {
  readonly states: StateStore;
  readonly last: NodeState | null;
  readonly memory: ClusterFile;
  readonly remembered: ClusterMemory | null;
  /** The rules in the kernel may be those of a change that was not confirmed. */
  readonly isTried: boolean;
}

/**
 * Runs the agent of a cluster until a signal ends it, or until the view has egress gateways, which
 * only an agent with the feature gate can enforce: `again`. Rules stay.
 */
export async function runClusterAgent(parts: Parts): Promise<ExitStatus | 'again'> {
  const { options, log } = parts;
  const agent = await ClusterAgent.load(parts);
  await agent.start();
  const signal = await untilStopped(agent.needsGate);
  const { node } = options;
  if (signal === null) {
    log.info('the cluster has egress gateways; starting again with the feature gate EgressGateway', { node });
    await agent.close();
    return 'again';
  }
  log.info('stopping; the rules stay in force', { node, signal });
  exitInTime(log, { node });
  await agent.close();
  return EXIT.done;
}

/**
 * Stages 4 to 6, from the controller's stream. This class turns everything that happens into events
 * of the transition (agent-transition.ts), and carries out its effects. Log lines and metrics that
 * need no decision are written here before the event.
 */
class ClusterAgent {
  readonly #parts: Parts;
  readonly #saved: Saved;
  readonly #reports: AgentLog;
  readonly #contact: ContactLog;
  readonly #places: ControlPlanePlaces;
  readonly #client: ControllerClient;
  readonly #authorities: Authorities;
  /** Null: this agent has no access to the API server. */
  readonly #outage: Outage | null;
  readonly #closing = new AbortController();
  readonly #needsGate = new AbortController();
  /** Whether the view last had egress gateways. */
  #viewHasEgress: boolean;
  /** What the network configuration of egress gateways lacks. */
  #egressProblems: readonly string[] = [];
  #guardReport: GuardReport | null = null;
  /** The cancel function of each armed timer. */
  readonly #timers = new Map<TimerName, () => void>();
  /** The controller's revision of each received state. */
  readonly #revisions = new WeakMap<NodeState, string>();
  /** The state that each submitted state was made from. */
  readonly #origins = new WeakMap<NodeState, NodeState>();
  #state: AgentState;
  /** The controller's CA (PEM) as last read from the API server. */
  #certificates: string | null;
  #interfaces: InterfaceGroups | null = null;
  #enforcement: Enforcement | null = null;
  /** Null: nothing is enforced, or the feature gate EgressGateway is off. */
  #leases: EgressLeases | null = null;
  /** Serializes the turns of work, because steps are asynchronous. */
  #work: Promise<void> = Promise.resolve();
  #report: Reporter | null = null;
  #addresses: { close(): Promise<void> } | null = null;
  #stream: ControllerStream | null = null;
  #stopListening: () => void = () => {};

  /** Reads what earlier runs saved. Nothing else happens before `start`. */
  static async load(parts: Parts): Promise<ClusterAgent> {
    const { options, log } = parts;
    const { node, stateDir } = options;
    const memory = clusterFile(stateDir, log);
    const remembered = await memory.read();
    const hasEgress = parts.config.featureGates.EgressGateway === true;
    const states = stateStore({ stateDir, node, log, hasEgress });
    const isTried = hasGuard(parts.config) && (await wasTried(stateDir, log));
    return new ClusterAgent(parts, { states, last: await states.readState(), memory, remembered, isTried });
  }

  private constructor(parts: Parts, saved: Saved) {
    const { options, controller, api, off, isAllowed, log, clock, random } = parts;
    const { remembered, isTried } = saved;
    // Before the first confirmed state stands the one without rules.
    const last = saved.last ?? (isTried ? emptyNodeState(parts.options.node) : null);
    const { node } = options;
    this.#parts = parts;
    this.#saved = saved;
    // If the saved gate can't be read, the state that was in force last is wanted.
    const rememberedGate = remembered?.enabled ?? null;
    this.#state = initialState({ isAllowed, last, rememberedGate, off: off.now, place: placeOf(node) });
    this.#certificates = remembered?.authorities ?? null;
    this.#viewHasEgress = remembered?.egress === true;
    this.#reports = new AgentLog(node, log);
    this.#contact = new ContactLog({ node, controller: controller.url.host, log, clock });
    this.#places = new ControlPlanePlaces({
      node,
      url: controller.url,
      apiServer: api?.url ?? null,
      config: parts.config,
      addresses: remembered?.controllerAddresses ?? [],
      endpoints: toEndpoints({ endpoints: [], ...remembered }),
      kubelet: remembered?.kubelet ?? null,
      log,
      changed: () => this.#moved(),
    });
    this.#state = { ...this.#state, places: this.#places.entries() };
    this.#authorities = this.#controllerAuthorities();
    this.#client = this.#controllerClient();
    const seen = (now: Extract<AgentEvent, { kind: 'seen' }>['seen']): void =>
      this.#happened({ kind: 'seen', seen: now });
    this.#outage = api === null ? null : loggedOutage({ node, api, log, clock, random, seen });
  }

  /** Aborted when this run lacks the feature gate EgressGateway for the controller's view. */
  get needsGate(): AbortSignal {
    return this.#needsGate.signal;
  }

  get #hasGuard(): boolean {
    return hasGuard(this.#parts.config);
  }

  get #hasEgress(): boolean {
    return this.#parts.config.featureGates.EgressGateway === true;
  }

  async start(): Promise<void> {
    const { options, egress, log, dataplanes, metrics, off, clock, random } = this.#parts;
    const { node } = options;
    this.#stopListening = off.listen(() => this.#happened({ kind: 'switched', off: off.now }));
    // Comes first: if this process lacks the privileges, it ends here.
    const holdsRules = await holdRules(dataplanes, node, log);
    const common = { node, client: this.#client, clock, random };
    this.#report = new Reporter({
      ...common,
      report: () => this.#reportNow(),
      done: (error) => {
        if (error === null) metrics.reported();
        this.#contact.reported(error);
      },
    });
    this.#addresses = await watchAddresses({
      node,
      log,
      metrics,
      changed: () => this.#report?.changed(true),
    });
    void this.#places.followKubelet(clock);
    await this.#places.resolve(clock);
    this.#happened({ kind: 'started', holdsRules: holdsRules && !this.#saved.isTried });
    this.#stream = new ControllerStream({
      ...common,
      fold: fold(node, this.#saved.last),
      egress: egress.refused === null,
      events: this.#streamEvents(),
    });
  }

  /** Rules stay. From now on, none are applied or repaired. */
  async close(): Promise<void> {
    this.#stopListening();
    this.#happened({ kind: 'stopping' });
    this.#closing.abort();
    await this.#work;
    await this.#stop();
    this.#places.close();
    await this.#outage?.close();
    await this.#stream?.close();
    await this.#addresses?.close();
    await this.#report?.close();
    this.#client.close();
    await this.#interfaces?.close();
    await this.#saved.memory.flush();
  }

  #happened(event: AgentEvent): void {
    const { state, effects } = transition(this.#state, event);
    this.#state = state;
    for (const effect of effects) this.#do(effect);
  }

  #do(effect: Effect): void {
    const { options, log, metrics } = this.#parts;
    switch (effect.kind) {
      case 'work':
        this.#addTurn();
        break;
      case 'remember':
        this.#remember();
        break;
      case 'report':
        this.#report?.changed(effect.isSoon);
        break;
      case 'askApiServer':
        if (effect.isOn) this.#outage?.begin();
        else this.#outage?.end();
        break;
      case 'retryController':
        this.#stream?.retryNow();
        break;
      case 'endpoints':
        this.#places.said(effect.endpoints);
        break;
      case 'submit':
        this.#origins.set(effect.target.state, effect.target.of);
        this.#enforcement?.submit(effect.target.state);
        break;
      case 'arm':
        this.#arm(effect.timer, effect.milliseconds);
        break;
      case 'disarm':
        this.#disarm(effect.timer);
        break;
      case 'showRevision':
        metrics.revision(effect.revision);
        break;
      case 'showGate':
        metrics.enabled(effect.enabled);
        metrics.off(effect.isOff);
        break;
      case 'say':
        log.info(effect.message, { node: options.node, ...effect.fields });
        break;
    }
  }

  #arm(timer: TimerName, milliseconds: number): void {
    this.#disarm(timer);
    const cancel = this.#parts.clock.after(milliseconds, () => {
      this.#timers.delete(timer);
      this.#happened({ kind: 'timer', timer });
    });
    this.#timers.set(timer, cancel);
  }

  #disarm(timer: TimerName): void {
    this.#timers.get(timer)?.();
    this.#timers.delete(timer);
  }

  #addTurn(): void {
    this.#work = this.#work
      .then(() => this.#turn())
      .catch((error: unknown) => {
        this.#reports.internalError(error);
        this.#happened({ kind: 'workFailed' });
      });
  }

  async #turn(): Promise<void> {
    for (const step of nextSteps(this.#state)) {
      if (this.#state.phase !== 'stopping') await this.#step(step);
    }
  }

  async #step(step: Step): Promise<void> {
    switch (step.kind) {
      case 'stop':
        return this.#stop();
      case 'start':
        this.#enforcement = await this.#startEnforcement();
        await this.#startLeases(this.#enforcement.floating);
        return this.#happened({ kind: 'enforcing' });
      case 'enforce':
        return this.#happened({ kind: 'wanted', target: step.target });
      case 'clear':
        return this.#clear(step.why);
    }
  }

  async #stop(): Promise<void> {
    // What is alive needs the rules: they may be removed next.
    await this.#leases?.stop(this.#state.phase === 'stopping');
    this.#leases = null;
    await this.#enforcement?.close();
    this.#enforcement = null;
    this.#guardReport = null;
    this.#happened({ kind: 'stopped' });
    this.#parts.metrics.counts(null);
  }

  async #startEnforcement(): Promise<Enforcement> {
    this.#interfaces ??= await keepInterfaceGroups(this.#parts);
    return await startEnforcement({
      ...this.#parts,
      interfaces: this.#interfaces,
      saved: this.#saved.states,
      reports: this.#reports,
      apiServer: () => this.#places.apiServers(),
      guard: this.#hasGuard
        ? {
            controlPlane: () => this.#places.probes(),
            askInward: (question) => askInward(this.#calls, question),
            changed: (report) => this.#guarded(report),
          }
        : null,
      enforced: (result, submitted) => this.#enforced(result, submitted),
      failed: (error) => this.#happened({ kind: 'refused', error }),
      egressProblems: (problems) => {
        this.#egressProblems = problems;
        this.#report?.changed(true);
      },
      egressHealth: (report) => this.#leases?.health(report),
    });
  }

  async #startLeases(floating: FloatingKernel | null): Promise<void> {
    if (floating === null) return;
    const { options, controller, log, metrics, clock } = this.#parts;
    const { startLeases } = await import('./egress-leases.ts');
    this.#leases = await startLeases({
      ...{ node: options.node, controller, authorities: this.#authorities, log, metrics, clock },
      addresses: () => this.#places.addresses,
      kernel: floating,
    });
    const folded = this.#state.folded?.state;
    if (folded !== undefined) this.#leases.viewed(folded.egress ?? null);
  }

  #enforced(result: Enforced, state: NodeState): void {
    const of = this.#origins.get(state) ?? state;
    const revision = this.#revisions.get(of) ?? null;
    this.#leases?.enforced(result.state.egress ?? null);
    this.#happened({ kind: 'enforced', inForce: { state, of, revision }, result });
  }

  /** Removes all of nodewall's rules from the kernel, and its interface groups. */
  async #clear(why: Why): Promise<void> {
    const { options, config, log, dataplanes } = this.#parts;
    const { node, stateDir } = options;
    const { removed, hidden } = await removeAll(dataplanes.all);
    warnHidden(log, node, hidden);
    await this.#interfaces?.close();
    this.#interfaces = null;
    await removeBootFiles(stateDir);
    const { interfaces } = await releaseInterfaceGroups(stateDir, config, log);
    this.#happened({ kind: 'cleared', why, removed, interfaces });
  }

  /** What requests to the controller need. */
  get #calls() {
    const { options, clock, log } = this.#parts;
    return { node: options.node, client: this.#client, clock, log, signal: this.#closing.signal };
  }

  #streamEvents(): StreamEvents {
    const { metrics } = this.#parts;
    const prober = new PeerProber(this.#calls);
    const answerer = metrics.text && new MetricsAnswerer(this.#calls, metrics.text);
    return {
      probe: (update) => prober.take(update),
      ...(answerer === null ? {} : { metrics: (update) => answerer.take(update) }),
      connected: ({ address }) => {
        metrics.connected(true);
        this.#contact.connected();
        this.#happened({ kind: 'connected' });
        this.#places.reached(address);
      },
      folded: (now) => {
        this.#seeEgress(now.state.egress !== undefined);
        // What this run would enforce of it is less than what the next one does.
        if (this.#needsGate.signal.aborted) return;
        this.#leases?.viewed(now.state.egress ?? null);
        this.#revisions.set(now.state, now.revision);
        metrics.bookmark(now.revision);
        this.#contact.bookmark(now.revision);
        this.#happened({ kind: 'folded', folded: now });
      },
      disconnected: (error, retryIn) => {
        metrics.connected(false);
        // The controller answers; a whole view may repair this.
        if (error instanceof FoldError) return this.#contact.refolding(error);
        this.#contact.disconnected(error, retryIn);
        this.#happened({ kind: 'disconnected' });
      },
      unfollowable: (error, retryIn) => {
        metrics.connected(false);
        metrics.unfollowable(error.message);
        this.#contact.unfollowable(error, retryIn);
        this.#happened({ kind: 'unfollowable', reason: error.message });
      },
    };
  }

  #guarded(report: GuardReport): void {
    this.#guardReport = report;
    this.#report?.changed(true);
  }

  #seeEgress(isThere: boolean): void {
    // A view that it did not ask for says nothing.
    if (isThere !== this.#viewHasEgress && this.#parts.egress.refused === null) {
      this.#viewHasEgress = isThere;
      this.#remember();
    }
    if (isThere && !this.#hasEgress) this.#needsGate.abort();
  }

  #moved(): void {
    this.#happened({ kind: 'moved', places: this.#places.entries() });
  }

  #controllerAuthorities(): Authorities {
    const { controller, api, clock } = this.#parts;
    return controllerAuthorities({
      caFile: controller.caFile,
      api,
      remembered: this.#certificates,
      signal: this.#closing.signal,
      clock,
      learned: (certificates) => {
        this.#certificates = certificates;
        this.#remember();
      },
    });
  }

  #controllerClient(): ControllerClient {
    const { controller, clock, random } = this.#parts;
    const { url, tokenFile } = controller;
    const lookup = lookupOrLast(() => this.#places.addresses, clock);
    const address = { url, tokenFile, authorities: this.#authorities, lookup };
    return controllerClient(address, `nodewall-agent/${VERSION}`, clock, random);
  }

  #remember(): void {
    const { addresses, endpoints, kubelet } = this.#places;
    this.#saved.memory.save({
      enabled: followedGate(this.#state),
      controllerAddresses: addresses,
      ...toWrittenEndpoints(endpoints),
      ...(kubelet === null ? {} : { kubelet }),
      ...(this.#viewHasEgress ? { egress: true } : {}),
      awaySince: this.#contact.awaySince(),
      ...(this.#certificates === null ? {} : { authorities: this.#certificates }),
    });
  }

  #reportNow(): NodeReport {
    const { options, dataplanes, clock, egress } = this.#parts;
    const { refused } = egress;
    const speaks = this.#hasEgress || refused !== null;
    return nodeReport(this.#state, {
      node: options.node,
      hostAddresses: hostAddresses(networkInterfaces(), this.#state.folded?.state.egress?.floating),
      version: VERSION,
      dataplane: dataplanes.chosen.name,
      ...(speaks ? { egress: { refused, problems: this.#egressProblems } } : {}),
      guard: this.#guardReport,
      now: clock.date(),
    });
  }
}

/** Guarded apply is on in a cluster, unless the configuration says otherwise. */
function hasGuard({ guard }: Config): boolean {
  return guard.enabled ?? true;
}
