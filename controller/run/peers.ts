import type { ControllerItem } from '../../apis/controller-state.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { NamespacedName } from '../../apis/objects.ts';
import { type Clock, pause } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { errorCode } from '../../lib/sharing/error.ts';
import { messageOf } from '../kubeapi/connection.ts';
import { emptyLike } from '../kubeapi/kube-config.ts';
import { isKubeError } from '../kubeapi/kube-error.ts';
import type { Elsewhere } from '../publish/inward-probing.ts';
import type { QuestionsElsewhere } from '../publish/node-questions.ts';
import type { AgedReport, NodeReports } from '../publish/node-reports.ts';
import { PEER_CALLS } from '../publish/peer-calls.ts';
import { PeerClients } from '../replicas/peer-clients.ts';
import { ProbeRelay, QuestionRelay, ReportRelay } from '../replicas/relays.ts';
import type { Compiling } from './compiling.ts';
import type { ControllerContext } from './controller-context.ts';

interface PeersOptions {
  readonly context: Pick<ControllerContext, 'kubeConfig' | 'listen' | 'peers' | 'log'>;
  readonly clock: Clock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  /** The Service whose name is in every controller's certificate. */
  readonly service: NamespacedName;
  /** See Credentials. */
  readonly caBundle: () => string | null | undefined;
  /** The addresses of the other controllers that run in pods; null: not known yet. */
  readonly addresses: () => readonly string[] | null;
  readonly reports: NodeReports;
  /** Called with the reports that another controller had, at the start. */
  readonly received: (reports: readonly AgedReport[]) => void;
  /** Called when another controller appears. */
  readonly joined: () => void;
}

/**
 * Milliseconds: how long the others are asked for their reports at the start; how long if all of
 * them refuse the connection, because they have just started too; and how often.
 */
const LONGEST_ASKING = 10_000;
const LONGEST_REFUSED = 2_000;
const ASK_AGAIN = 500;

/**
 * The other controllers: agents report to any of them, and each must know the reports of all nodes,
 * because reported addresses are members of sets.
 */
export class OtherControllers {
  readonly #options: PeersOptions;
  readonly #log: Log;
  readonly #relay: ReportRelay;
  readonly #probes: ProbeRelay;
  readonly #questions: QuestionRelay;
  readonly #closing = new AbortController();
  readonly #clients: PeerClients;
  #known: readonly string[] = [];

  constructor(options: PeersOptions) {
    this.#options = options;
    this.#log = options.context.log;
    const { kubeConfig } = options.context;
    this.#clients = new PeerClients({
      service: options.service,
      caBundle: options.caBundle,
      kubeConfig: () => emptyLike(kubeConfig),
      user: kubeConfig.getCurrentUser() ?? { name: '' },
    });
    this.#relay = new ReportRelay({
      ...options,
      send: (peer, body, signal) => this.#clients.call(peer, PEER_CALLS.reports, body, signal),
      failing: (peer, error) => this.#sayFailing(peer, error),
    });
    this.#probes = new ProbeRelay({
      peers: () => this.#known,
      send: async (peer, body) => {
        const { results } = await this.#clients.call(peer, PEER_CALLS.probes, body, this.#closing.signal);
        return results;
      },
    });
    this.#questions = new QuestionRelay({
      peers: () => this.#known,
      send: (peer, body) => this.#clients.call(peer, PEER_CALLS.questions, body, this.#closing.signal),
    });
  }

  /** The others that run, HOST:PORT each. */
  get known(): readonly string[] {
    return this.#known;
  }

  /** The states of the others; those that do not answer in time have their address. */
  states(): Promise<ControllerItem[]> {
    return Promise.all(this.#known.map((peer) => this.#stateOf(peer)));
  }

  async #stateOf(peer: string): Promise<ControllerItem> {
    try {
      const state = await this.#clients.call(peer, PEER_CALLS.state, null, this.#closing.signal);
      return { metadata: { name: state.name }, state };
    } catch (error) {
      return { metadata: { name: peer }, problem: messageOf(error) };
    }
  }

  /** Must be called when the addresses may have changed. */
  refresh(): void {
    if (this.#closing.signal.aborted) return;
    const now = this.#peers() ?? [];
    const isNew = now.some((peer) => !this.#known.includes(peer));
    this.#known = now;
    this.#clients.keep(now);
    this.#relay.setPeers(now);
    if (isNew) this.#options.joined();
  }

  pass(report: NodeReport): void {
    this.#relay.pass(report);
  }

  /** The other controllers, for probes to nodes. */
  get probes(): Elsewhere {
    return this.#probes;
  }

  /** The other controllers, for questions to agents. */
  get questions(): QuestionsElsewhere {
    return this.#questions;
  }

  /**
   * Resolves when another controller has given all reports that it has, or there is none, or none
   * answers in time.
   */
  async learn(): Promise<void> {
    const { clock } = this.#options;
    const started = clock.now();
    while (clock.now() < started + LONGEST_ASKING && !this.#closing.signal.aborted) {
      const peers = this.#peers();
      if (peers?.length === 0) return;
      const answers = [];
      for (const peer of peers ?? []) {
        answers.push(await this.#learnFrom(peer));
        if (answers.at(-1) === 'learnt') return;
      }
      const isRefused = answers.length > 0 && answers.every((answer) => answer === 'refused');
      if (isRefused && clock.now() > started + LONGEST_REFUSED) return;
      await pause(clock, ASK_AGAIN, this.#closing.signal);
    }
    this.#log.warn('no other controller has sent its reports of nodes; starting without them', {
      stage: 'publish',
      controllers: this.#peers() ?? [],
    });
  }

  close(): void {
    this.#closing.abort();
    this.#relay.close();
    this.#clients.close();
  }

  async #learnFrom(peer: string): Promise<'learnt' | 'refused' | 'failed'> {
    try {
      const { signal } = this.#closing;
      const { reports } = await this.#clients.call(peer, PEER_CALLS.allReports, null, signal);
      this.#options.received(reports);
      return 'learnt';
    } catch (error) {
      this.#log.debug('cannot get the reports of another controller', {
        stage: 'publish',
        controller: peer,
        error: messageOf(error),
      });
      // 503: it has started too, and answers nothing but its metrics yet.
      const hasNone = isKubeError(error, 'ServiceUnavailable');
      return hasNone || errorCode((error as Error).cause) === 'ECONNREFUSED' ? 'refused' : 'failed';
    }
  }

  /** HOST:PORT each. */
  #peers(): readonly string[] | null {
    const { addresses, context } = this.#options;
    const found = addresses();
    if (found === null) return null;
    const { port } = context.listen;
    return [
      ...found.map((address) => `${address.includes(':') ? `[${address}]` : address}:${port}`),
      ...context.peers,
    ];
  }

  #sayFailing(controller: string, error: Error | null): void {
    const fields = { stage: 'publish', controller };
    if (error === null) this.#log.info('another controller takes reports again', fields);
    else {
      const message = 'cannot pass reports on to another controller; trying again';
      this.#log.warn(message, { ...fields, error: messageOf(error) });
    }
  }
}

interface ReportDeliveryOptions {
  readonly compiling: Pick<Compiling, 'useReports'>;
  readonly peers: Pick<OtherControllers, 'learn' | 'pass'>;
  /** Counts a report of an agent. */
  readonly reported: () => void;
}

/** Passes reports of agents on to the other controllers, and has theirs at the start. */
export class ReportDelivery {
  readonly #options: ReportDeliveryOptions;
  #isComplete = false;

  constructor(options: ReportDeliveryOptions) {
    this.#options = options;
  }

  /** Null, or the reason why agents can't be served yet. */
  missing(): string | null {
    return this.#isComplete ? null : 'the reports that other controllers have are not here yet';
  }

  /** Asks the other controllers for the reports that they have. */
  learn(): void {
    const { peers, compiling } = this.#options;
    void peers.learn().then(async () => {
      // Agents are served only with the reported addresses in force.
      await compiling.useReports();
      this.#isComplete = true;
    });
  }

  /** One has come, and is in the view already. */
  arrived(report: NodeReport, from: 'agent' | 'controller'): void {
    if (from === 'controller') return;
    this.#options.reported();
    this.#options.peers.pass(report);
  }
}
