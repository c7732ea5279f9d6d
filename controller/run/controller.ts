import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { withEgressGroup } from '../../apis/config.ts';
import { systemClock } from '../../lib/process/clock.ts';
import { CommandError, EXIT, type ExitStatus, untilStopped } from '../../lib/process/exit.ts';
import { type MetricsServer, serveMetrics } from '../../lib/process/metrics-server.ts';
import { messageOf } from '../kubeapi/connection.ts';
import { formatMissingRight } from '../kubeapi/kube-error.ts';
import { handOver } from '../replicas/replicas.ts';
import type { ControllerContext, ProcessContext } from './controller-context.ts';
import { ControllerLead } from './lead.ts';
import {
  afterEvent,
  afterLook,
  IDLE,
  type LifeEffect,
  type LifeEvent,
  missing,
  Steps,
  type Turn,
} from './lifecycle.ts';
import { ControllerServe } from './serve.ts';
import { ControllerBus, ControllerView } from './view.ts';

/** Rights that are named; a role that is missing gives all of them. */
const MOST_RIGHTS = 10;

/**
 * The controller: stages 1 to 3, and statuses and events. Every replica watches, compiles, and
 * serves agents, readers and webhooks; the one that holds the Lease also writes statuses. Agents'
 * reports reach all replicas.
 */
export class Controller {
  readonly #context: ControllerContext;
  readonly #process: ProcessContext;
  readonly #view: ControllerView;
  readonly #lead: ControllerLead;
  readonly #serve: ControllerServe;
  readonly #watching: Steps;
  readonly #serving: Steps;
  readonly #over = new AbortController();
  readonly #fatal = Promise.withResolvers<never>();
  readonly #restart = Promise.withResolvers<'again'>();
  #life = IDLE;
  /** The turns in progress. */
  #turns: Promise<void> = Promise.resolve();
  #health: MetricsServer | null = null;
  /** The address of the port for agents and readers; null: it is not open. */
  #address: AddressInfo | null = null;

  constructor(context: ControllerContext, processContext: ProcessContext) {
    this.#context = context;
    this.#process = processContext;
    // Only `run` handles this rejection.
    this.#fatal.promise.catch(() => {});
    const bus = new ControllerBus();
    this.#view = new ControllerView(context, processContext, bus);
    this.#lead = new ControllerLead(context, processContext, bus, this.#view);
    this.#serve = new ControllerServe({
      context,
      process: processContext,
      bus,
      view: this.#view,
      lead: this.#lead,
      life: () => this.#life,
    });
    bus.on('life', (event) => this.#happen(event));
    this.#watching = this.#watchingSteps();
    this.#serving = this.#servingSteps();
  }

  /**
   * Runs until it is asked to stop and others can continue, or to begin again, or a part fails; in
   * that case throws its error.
   */
  async run(): Promise<ExitStatus | 'again'> {
    const { log } = this.#context;
    const fatal = this.#fatal.promise;
    try {
      await this.#watching.start();
      this.#serving.start().catch((error: unknown) => this.#happen({ kind: 'failed', error }));
      const signal = await Promise.race([untilStopped(this.#over.signal), fatal, this.#restart.promise]);
      if (signal === 'again') {
        log.info('starting again, for the feature gate EgressGateway; agents keep their rules');
        return signal;
      }
      log.info('stopping; agents keep their rules', { signal });
      this.#happen({ kind: 'stopRequested' });
      await Promise.race([this.#handOver(), untilStopped(this.#over.signal), fatal]);
      return EXIT.done;
    } finally {
      await this.#serving.stop();
      await this.#watching.stop();
    }
  }

  /** Steps that follow the cluster; they are started first. */
  #watchingSteps(): Steps {
    return new Steps([
      {
        name: 'heartbeats',
        start: () => this.#lead.heartbeats.start(),
        stop: () => this.#lead.heartbeats.close(),
      },
      { name: 'connections to the API server', stop: () => this.#view.api.close() },
      {
        name: 'Guardrails and console',
        stop: () => {
          this.#lead.close();
          this.#serve.console.close();
        },
      },
      { name: 'statuses', stop: () => this.#lead.lead(false) },
      { name: 'inputs', start: () => this.#startInputs(), stop: () => this.#closeInputs() },
    ]);
  }

  /**
   * Steps that depend on answers of the cluster; the controller may be asked to stop while they
   * start.
   */
  #servingSteps(): Steps {
    return new Steps([
      {
        name: 'certificate',
        // Closed with the inputs.
        start: async () => {
          await this.#serve.credentials.start();
          this.#happen({ kind: 'certificate' });
        },
      },
      {
        name: 'webhook',
        start: () => this.#serve.listenForWebhooks(),
        stop: () => this.#serve.webhook.close(),
      },
      {
        name: 'other controllers',
        start: async () => this.#serve.delivery.learn(),
        stop: () => this.#serve.peers.close(),
      },
      // Listens, and serves, when `#takeTurns` finds that it is due.
      {
        name: 'agents',
        stop: () => {
          this.#serve.console.endWatches();
          return this.#serve.agents.close();
        },
      },
      { name: 'APIService', stop: () => this.#serve.registration.close() },
      {
        name: 'election',
        start: async () => {
          await this.#view.watches.source.synced;
          if (!this.#life.isOver) this.#lead.heartbeats.elect();
        },
        // Another replica leads while this one ends its streams.
        stop: () => this.#lead.heartbeats.release(),
      },
      {
        name: 'turns',
        stop: async () => {
          this.#over.abort();
          this.#happen({ kind: 'over' });
          await this.#turns;
        },
      },
    ]);
  }

  async #startInputs(): Promise<void> {
    const { options, log } = this.#context;
    if (options.metricsListen !== undefined) {
      this.#health = await serveMetrics({
        listen: options.metricsListen,
        registry: this.#view.metrics.registry,
        isLocal: true,
        healthy: () => null,
        ready: () =>
          this.#view.api.token.refusal() ??
          this.#missing() ??
          (this.#life.isServing ? this.#serve.delivery.missing() : 'not serving yet'),
      });
      log.info('serving health and metrics', { port: this.#health.port });
    }
    await this.#view.start();
  }

  async #closeInputs(): Promise<void> {
    await Promise.all([this.#view.close(), this.#serve.credentials.close(), this.#health?.close()]);
  }

  #happen(event: LifeEvent): void {
    const { life, effects } = afterEvent(this.#life, event);
    this.#life = life;
    for (const effect of effects) this.#do(effect);
  }

  #do(effect: LifeEffect): void {
    if (effect === 'look') this.#reconcile();
    else if (effect === 'wake') this.#serve.worlds.happened();
    else if (effect === 'register') this.#serve.registration.reconcile();
    else if (effect === 'useTls') this.#serve.useTls();
    else if (effect === 'restart') this.#restart.resolve('again');
    else this.#fatal.reject(effect.giveUp);
  }

  /** Starts or stops serving and leading as required; one check after the other. */
  #reconcile(): void {
    this.#turns = this.#turns
      .then(() => this.#takeTurns())
      .catch((cause: unknown) => {
        const error = new CommandError(EXIT.refused, `--listen: ${messageOf(cause)}`, { cause });
        this.#happen({ kind: 'failed', error });
      });
  }

  async #takeTurns(): Promise<void> {
    const leads = this.#lead.isLeader() && this.#view.watches.freshness.isProven;
    const { life, effects } = afterLook(this.#life, this.#readiness(), leads);
    this.#life = life;
    for (const turn of effects) await this.#turn(turn);
  }

  async #turn(turn: Turn): Promise<void> {
    switch (turn) {
      case 'resign':
        return this.#lead.lead(false);
      case 'listen':
        return this.#listen();
      case 'serve':
        return this.#serveAgents();
      case 'lead':
        await this.#lead.lead(true);
        this.#happen({ kind: 'leading' });
    }
  }

  #readiness() {
    return { isListed: this.#view.hub.ready, isGateKnown: this.#view.isGateKnown };
  }

  /** Null, or the reason why nothing can be served, with the rights that the controller lacks. */
  #missing(): string | null {
    const why = missing(this.#life, this.#readiness());
    const rights = this.#serve.missingRights().slice(0, MOST_RIGHTS);
    return why === null || rights.length === 0 ? why : `${why}: ${rights.map(formatMissingRight).join('; ')}`;
  }

  async #listen(): Promise<void> {
    const address = await this.#serve.listen();
    if (address === null) return;
    this.#address = address;
    // The certificate may have changed meanwhile: this event applies the current one.
    this.#happen({ kind: 'listening' });
  }

  async #serveAgents(): Promise<void> {
    if (this.#address === null) return;
    const { address, port } = this.#address;
    this.#happen({ kind: 'serving' });
    this.#context.log.info('serving agents and readers', {
      address,
      port,
      revision: this.#view.hub.revision,
    });
  }

  /** Resolves when other replicas can continue without this one. */
  async #handOver(): Promise<void> {
    const why = await handOver({
      clock: this.#process.clock,
      facts: () => ({
        self: this.#view.replicas.self,
        pods: this.#view.replicas.pods,
        isNamespaceTerminating: this.#view.replicas.isNamespaceTerminating,
        agents: this.#serve.agents.stats()?.watchers ?? 0,
        isPublished: (pod) => this.#view.compiling.isPublished(pod),
        unsentBytes: this.#serve.agents.stats()?.unsentBytes ?? 0,
      }),
      changed: this.#serve.worlds.wait,
      isOver: () => this.#life.isOver,
    });
    if (why !== null) this.#context.log.info('exiting', { reason: why });
  }
}

/**
 * Runs a controller until it is asked to stop and others can continue without it. When the
 * cluster's feature gate EgressGateway changes, another one begins in this process: what a
 * controller watches and compiles depends on the gate from the start.
 */
export async function runController(context: ControllerContext): Promise<ExitStatus> {
  const { given = null, configured = null } = context.egressGate ?? {};
  const { config } = context;
  let hasEgress = given ?? configured ?? false;
  for (;;) {
    const identity = `${hostname()}_${randomUUID()}`;
    const featureGates = { ...config.featureGates, EgressGateway: hasEgress };
    const run = { ...context, config: withEgressGroup({ ...config, featureGates }) };
    const ended = await new Controller(run, { clock: systemClock, random: Math.random, identity }).run();
    if (ended !== 'again') return ended;
    hasEgress = !hasEgress;
  }
}
