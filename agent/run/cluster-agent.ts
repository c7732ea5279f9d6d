import { networkInterfaces } from 'node:os';
import { emptyNodeState, type NodeState } from '../../apis/compiled.ts';
import type { NodeQuestion } from '../../apis/node-question.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import { toEndpoints, toWrittenEndpoints } from '../../apis/stream.ts';
import { EXIT, type ExitStatus, exitInTime, untilStopped } from '../../lib/process/exit.ts';
import { VERSION } from '../../lib/process/version.ts';
import { holdRules } from '../dataplane/dataplane.ts';
import { nodeData } from '../inspect/node-data.ts';
import type { ApiServer } from '../receive/api-server.ts';
import { controllersOf, type Destination } from '../receive/destinations.ts';
import { type Folded, fold } from '../receive/fold.ts';
import { AgentLog } from './agent-log.ts';
import {
  type AgentState,
  followedGate,
  initialState,
  nextSteps,
  placeAmongNodes,
  policiesOf,
  type Step,
} from './agent-state.ts';
import { type AgentEffect, type AgentEvent, type TimerName, transition } from './agent-transition.ts';
import { ControlPlanePlaces } from './control-plane-places.ts';
import { ControllerConnection } from './controller-connection.ts';
import { ClusterEnforcement, type ClusterEnforcementOptions } from './enforcement.ts';
import { hasGuard, wasTried } from './guarded.ts';
import { hostAddresses, watchAddresses } from './machine-addresses.ts';
import { nodeReport, ReportTotals } from './node-report.ts';
import type { OffSwitch } from './off-file.ts';
import {
  type ClusterFile,
  type ClusterMemory,
  clusterFile,
  type StateStore,
  stateStore,
} from './state-store.ts';

interface ClusterAgentOptions
  extends Omit<
    ClusterEnforcementOptions,
    'connection' | 'places' | 'replicas' | 'saved' | 'reports' | 'events'
  > {
  /** Null: this agent has no access to the API server. */
  readonly api: ApiServer | null;
  readonly off: OffSwitch;
  /** False if the feature gate is off on this machine, whatever the cluster's gate is. */
  readonly isAllowed: boolean;
  /**
   * Why this machine can't enforce what a view says of egress gateways; null: it can, if `config`
   * has the feature gate.
   */
  readonly refused: string | null;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
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
export async function runClusterAgent(parts: ClusterAgentOptions): Promise<ExitStatus | 'again'> {
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
 * of the transition (agent-transition.ts), and carries out its effects by what it owns: the
 * connection to the controller, the control plane's addresses, and the enforcement.
 */
class ClusterAgent {
  readonly #options: ClusterAgentOptions;
  readonly #saved: Saved;
  readonly #reports: AgentLog;
  readonly #places: ControlPlanePlaces;
  readonly #connection: ControllerConnection;
  readonly #enforcement: ClusterEnforcement;
  readonly #totals = new ReportTotals();
  readonly #needsGate = new AbortController();
  /** Whether the view last had egress gateways. */
  #viewHasEgress: boolean;
  /** The cancel function of each armed timer. */
  readonly #timers = new Map<TimerName, () => void>();
  #state: AgentState;
  /** Serializes the turns of work, because steps are asynchronous. */
  #work: Promise<void> = Promise.resolve();
  #addresses: { close(): Promise<void> } | null = null;
  #stopListening: () => void = () => {};

  /** Reads what earlier runs saved. Nothing else happens before `start`. */
  static async load(parts: ClusterAgentOptions): Promise<ClusterAgent> {
    const { options, log } = parts;
    const { node, stateDir } = options;
    const memory = clusterFile(stateDir, log);
    const remembered = await memory.read();
    const hasEgress = parts.config.featureGates.EgressGateway === true;
    const states = stateStore({ stateDir, node, log, hasEgress });
    const isTried = hasGuard(parts.config) && (await wasTried(stateDir, log));
    return new ClusterAgent(parts, { states, last: await states.readState(), memory, remembered, isTried });
  }

  private constructor(parts: ClusterAgentOptions, saved: Saved) {
    const { options, off, isAllowed, log } = parts;
    const { remembered, isTried } = saved;
    const { node } = options;
    // Before the first confirmed state stands the one without rules.
    const last = saved.last ?? (isTried ? emptyNodeState(node) : null);
    this.#options = { ...parts, metrics: this.#totals.over(parts.metrics) };
    this.#saved = saved;
    this.#viewHasEgress = remembered?.egress === true;
    this.#reports = new AgentLog(node, log);
    this.#places = this.#controlPlanePlaces();
    this.#connection = this.#controllerConnection();
    this.#enforcement = this.#clusterEnforcement();
    // If the saved gate can't be read, the state that was in force last is wanted.
    const rememberedGate = remembered?.enabled ?? null;
    const beginning = { isAllowed, last, rememberedGate, off: off.now, place: placeAmongNodes(node) };
    this.#state = { ...initialState(beginning), places: this.#places.entries() };
  }

  /** Aborted when this run lacks the feature gate EgressGateway for the controller's view. */
  get needsGate(): AbortSignal {
    return this.#needsGate.signal;
  }

  get #hasEgress(): boolean {
    return this.#options.config.featureGates.EgressGateway === true;
  }

  async start(): Promise<void> {
    const { options, refused, log, dataplanes, metrics, off, clock } = this.#options;
    const { node } = options;
    this.#stopListening = off.listen(() => this.#happened({ kind: 'switched', off: off.now }));
    // Comes first: if this process lacks the privileges, it ends here.
    const holdsRules = await holdRules(dataplanes, node, log);
    this.#connection.startReports(() => this.#reportNow());
    const changed = (): void => this.#connection.report(true);
    this.#addresses = await watchAddresses({ node, log, metrics, changed });
    void this.#places.followKubelet(clock);
    await this.#places.resolve(clock);
    this.#happened({ kind: 'started', holdsRules, areTried: this.#saved.isTried });
    this.#connection.follow(fold(node, this.#saved.last), refused === null);
  }

  /** Rules stay. From now on, none are applied or repaired. */
  async close(): Promise<void> {
    this.#stopListening();
    this.#happened({ kind: 'stopping' });
    this.#connection.abort();
    await this.#work;
    await this.#stop();
    this.#places.close();
    await this.#connection.close();
    await this.#addresses?.close();
    await this.#enforcement.close();
    await Promise.all([this.#saved.states.close(), this.#saved.memory.close()]);
  }

  #happened(event: AgentEvent): void {
    const { state, effects } = transition(this.#state, event);
    this.#state = state;
    for (const effect of effects) this.#do(effect);
  }

  #do(effect: AgentEffect): void {
    const { options, log, metrics } = this.#options;
    switch (effect.kind) {
      case 'work':
        this.#addTurn();
        break;
      case 'remember':
        this.#remember();
        break;
      case 'report':
        this.#connection.report(effect.isSoon);
        break;
      case 'askApiServer':
        this.#connection.askApiServer(effect.isOn);
        break;
      case 'retryController':
        this.#connection.retryNow();
        break;
      case 'endpoints':
        this.#places.setEndpoints(effect.endpoints);
        break;
      case 'submit':
        this.#enforcement.submit(effect.target);
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
    const cancel = this.#options.clock.after(milliseconds, () => {
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
        await this.#enforcement.start();
        return this.#happened({ kind: 'enforcing' });
      case 'enforce':
        return this.#happened({ kind: 'wanted', target: step.target });
      case 'clear':
        return this.#happened({ kind: 'cleared', why: step.why, ...(await this.#enforcement.clear()) });
    }
  }

  async #stop(): Promise<void> {
    await this.#enforcement.stop(this.#state.phase === 'stopping');
    this.#happened({ kind: 'stopped' });
  }

  #controlPlanePlaces(): ControlPlanePlaces {
    const { options, controller, api, config, log } = this.#options;
    const { remembered } = this.#saved;
    return new ControlPlanePlaces({
      node: options.node,
      url: controller.url,
      apiServer: api?.url ?? null,
      config,
      log,
      addresses: remembered?.controllerAddresses ?? [],
      endpoints: toEndpoints({ endpoints: [], ...remembered }),
      kubelet: remembered?.kubelet ?? null,
      replicas: () => this.#replicas(),
      changed: () => this.#happened({ kind: 'moved', places: this.#places.entries() }),
    });
  }

  #controllerConnection(): ControllerConnection {
    return new ControllerConnection({
      ...this.#options,
      node: this.#options.options.node,
      certificates: this.#saved.remembered?.authorities ?? null,
      addresses: () => this.#places.addresses,
      nodeData: (question) => this.#nodeData(question),
      replicas: () => this.#replicas(),
      policies: () => policiesOf(this.#state.folded?.state ?? this.#saved.last),
      events: {
        connected: (address) => {
          this.#happened({ kind: 'connected' });
          this.#places.reached(address);
        },
        accepts: (view) => this.#accepts(view),
        folded: (folded) => {
          this.#enforcement.viewed(folded);
          this.#happened({ kind: 'folded', folded });
        },
        disconnected: () => this.#happened({ kind: 'disconnected' }),
        unfollowable: (reason) => this.#happened({ kind: 'unfollowable', reason }),
        seen: (seen) => this.#happened({ kind: 'seen', seen }),
        learned: () => this.#remember(),
      },
    });
  }

  #nodeData(question: NodeQuestion): Promise<string> {
    const { options, config, metrics, flows } = this.#options;
    const controlPlane = () => this.#places.entries();
    return nodeData(question, {
      stateDir: options.stateDir,
      config,
      metrics: metrics.text,
      flows,
      controlPlane,
    });
  }

  #replicas(): readonly Destination[] {
    const { folded, seen } = this.#state;
    const hosts = controllersOf(folded?.state ?? this.#saved.last, seen.controllers);
    return hosts.map((host) => ({ host, port: this.#options.config.controllerPorts.agents }));
  }

  #clusterEnforcement(): ClusterEnforcement {
    return new ClusterEnforcement({
      ...this.#options,
      connection: this.#connection,
      places: this.#places,
      replicas: () => this.#replicas(),
      saved: this.#saved.states,
      reports: this.#reports,
      events: {
        enforced: (result) => this.#happened({ kind: 'enforced', result }),
        refused: (error) => this.#happened({ kind: 'refused', error }),
        changed: () => this.#connection.report(true),
      },
    });
  }

  /**
   * False if the view needs the feature gate EgressGateway, which this run lacks: what it would
   * enforce of the view is less than what the next run does.
   */
  #accepts({ state }: Folded): boolean {
    const hasEgress = state.egress !== undefined;
    // A view that it did not ask for says nothing.
    if (hasEgress !== this.#viewHasEgress && this.#options.refused === null) {
      this.#viewHasEgress = hasEgress;
      this.#remember();
    }
    if (hasEgress && !this.#hasEgress) this.#needsGate.abort();
    return !this.#needsGate.signal.aborted;
  }

  #remember(): void {
    const { addresses, endpoints, kubelet } = this.#places;
    const { certificates, awaySince } = this.#connection;
    this.#saved.memory.save({
      enabled: followedGate(this.#state),
      controllerAddresses: addresses,
      ...toWrittenEndpoints(endpoints),
      ...(kubelet === null ? {} : { kubelet }),
      ...(this.#viewHasEgress ? { egress: true } : {}),
      awaySince,
      ...(certificates === null ? {} : { authorities: certificates }),
    });
  }

  #reportNow(): NodeReport {
    const { options, dataplanes, clock, refused, extension } = this.#options;
    const { publicKey } = extension;
    const { lacks: problems, guardReport: guard, unseenProxy, platform } = this.#enforcement;
    const speaks = this.#hasEgress || refused !== null;
    return nodeReport(this.#state, {
      node: options.node,
      hostAddresses: hostAddresses(networkInterfaces(), this.#state.folded?.state.egress?.floating),
      version: VERSION,
      dataplane: dataplanes.chosen.name,
      ...(speaks ? { egress: { refused, publicKey, problems } } : {}),
      guard,
      unseenProxy,
      platform,
      totals: this.#totals.next(),
      now: clock.date(),
    });
  }
}
