import { AGENT_CALLS } from '../../apis/calls.ts';
import type { NodeQuestion } from '../../apis/node-question.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import {
  INWARD_PATIENCE,
  type InwardQuestion,
  type InwardResult,
  type PeerAnswer,
} from '../../apis/probes.ts';
import type { ProbeUpdate } from '../../apis/stream.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { VERSION } from '../../lib/process/version.ts';
import { agentAttempt } from '../guard/probes.ts';
import { type ApiServer, ApiServerError, type PolicyId } from '../receive/api-server.ts';
import {
  type Caller,
  type ControllerClient,
  ControllerError,
  callController,
  controllerClient,
} from '../receive/controller-client.ts';
import { type Destination, toText } from '../receive/destinations.ts';
import { type Fold, FoldError, type Folded } from '../receive/fold.ts';
import {
  type Authorities,
  FetchedAuthorities,
  type FetchedAuthoritiesOptions,
  fileAuthorities,
  lookupOrLast,
} from '../receive/https-call.ts';
import { Outage, type OutageOptions, type OutageState } from '../receive/outage.ts';
import { Reporter } from '../receive/reporter.ts';
import { ControllerStream, type StreamEvents } from '../receive/stream.ts';
import { ContactLog } from './agent-log.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import { portOf } from './control-plane-places.ts';
import { QuestionAnswerer } from './question-answerer.ts';

const NOT_FOUND = 404;
const EARLIER = 'the controller is of an earlier version, which makes no probes to nodes';

/** The controller, from the command line. */
export interface ControllerAccess {
  readonly url: URL;
  readonly tokenFile: string;
  /** Null: the CA is read from the API server. */
  readonly caFile: string | null;
}

interface ConnectionEvents {
  /** A controller answered, at this address of the URL's host; empty: at one of its own. */
  connected(address: string): void;
  /** Whether this run can enforce the view; a view that is not accepted is dropped. */
  accepts(view: Folded): boolean;
  /** A bookmark of the controller's view, which was accepted. */
  folded(view: Folded): void;
  /** No controller answers. */
  disconnected(): void;
  /** The controller answers, but its view can't be folded. */
  unfollowable(reason: string): void;
  /** The API server answered while no controller did. */
  seen(seen: OutageState): void;
  /** `certificates` changed, and must be saved. */
  learned(): void;
}

export interface ControllerConnectionOptions {
  readonly node: string;
  readonly controller: ControllerAccess;
  /** Null: this agent has no access to the API server. */
  readonly api: ApiServer | null;
  /** The controller's CA (PEM) that an earlier run saved; null: none. */
  readonly certificates: string | null;
  /** The controller's last addresses, for when its name can't be resolved. */
  readonly addresses: () => readonly string[];
  /** The controllers themselves, tried where the URL's host does not answer. */
  readonly replicas: () => readonly Destination[];
  /** The policies whose rules this node has, or wants. */
  readonly policies: () => readonly PolicyId[];
  readonly log: Log;
  readonly metrics: Pick<
    AgentMetrics,
    'connected' | 'bookmark' | 'unfollowable' | 'tokenRefused' | 'reported'
  >;
  readonly clock: WallClock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly events: ConnectionEvents;
  /** This node's data, for those who ask at a controller; throws if it has no answer. */
  readonly nodeData: (question: NodeQuestion) => Promise<string>;
}

/**
 * All that a cluster's agent exchanges with its controllers: the view, reports, and answers to
 * probes and questions; while no controller answers, it asks the API server. Log lines and metrics
 * about that are written here, before the event. Nothing is sent before `startReports` and
 * `follow`.
 */
export class ControllerConnection {
  readonly authorities: Authorities;
  readonly #options: ControllerConnectionOptions;
  readonly #contact: ContactLog;
  readonly #client: ControllerClient;
  /** Null: this agent has no access to the API server. */
  readonly #outage: Outage | null;
  readonly #closing = new AbortController();
  #certificates: string | null;
  #reporter: Reporter | null = null;
  #stream: ControllerStream | null = null;

  constructor(options: ControllerConnectionOptions) {
    const { node, controller, api, certificates, addresses, replicas, log, clock, random, events, metrics } =
      options;
    const { url, tokenFile, caFile } = controller;
    this.#options = options;
    this.#certificates = certificates;
    this.#contact = new ContactLog({ node, controller: url.host, log, clock });
    this.authorities = controllerAuthorities({
      caFile,
      api,
      clock,
      remembered: certificates,
      signal: this.#closing.signal,
      learned: (learned) => {
        this.#certificates = learned;
        events.learned();
      },
    });
    const lookup = lookupOrLast(addresses, clock);
    const address = { url, tokenFile, authorities: this.authorities, lookup, replicas };
    this.#client = controllerClient(address, `nodewall-agent/${VERSION}`, clock, random);
    const seen = (now: OutageState): void => events.seen(now);
    const refused = (): void => metrics.tokenRefused(true);
    this.#outage =
      api === null
        ? null
        : loggedOutage({ node, api, log, clock, random, seen, policies: options.policies, refused });
  }

  /** The controller's CA (PEM) as last read from the API server; null: it never was. */
  get certificates(): string | null {
    return this.#certificates;
  }

  /** The time since when no controller answers (ISO 8601); null: one does. */
  get awaySince(): string | null {
    return this.#contact.awaySince();
  }

  /** @param report returns the current report */
  startReports(report: () => NodeReport): void {
    const { node, metrics, clock, random } = this.#options;
    this.#reporter = new Reporter({
      node,
      client: this.#client,
      clock,
      random,
      report,
      done: (error) => {
        if (error === null) metrics.reported();
        this.#contact.reported(error);
      },
    });
  }

  /**
   * Follows the controller's view until closed.
   * @param egress whether to ask for egress gateways
   */
  follow(fold: Fold, egress: boolean): void {
    const { node, clock, random } = this.#options;
    const events = this.#streamEvents();
    this.#stream = new ControllerStream({ node, client: this.#client, fold, events, clock, random, egress });
  }

  /** The next report is due. `isSoon`: within a second or two; else within ten. */
  report(isSoon: boolean): void {
    this.#reporter?.changed(isSoon);
  }

  /** The path to the controller may be free: tries again at once. */
  retryNow(): void {
    this.#stream?.retryNow();
  }

  /** Starts or stops polling the API server. */
  askApiServer(isOn: boolean): void {
    if (isOn) this.#outage?.begin();
    else this.#outage?.end();
  }

  /** Asks the controller for connections to this node. Rejects if it has no answer in time. */
  async askInward(question: InwardQuestion): Promise<readonly InwardResult[]> {
    const calls = this.#calls;
    const patience = question.milliseconds + INWARD_PATIENCE.onTheWay;
    try {
      const options = { signal: calls.signal, patience, isStream: true };
      const { results } = await callController(calls, AGENT_CALLS.probes, question, options);
      return results;
    } catch (error) {
      if (error instanceof ControllerError && error.status === NOT_FOUND)
        return question.probes.map(({ name }) => ({ name, notMade: EARLIER }));
      throw error;
    }
  }

  /** Ends the requests in progress, except for the view and reports; further ones fail. */
  abort(): void {
    this.#closing.abort();
  }

  async close(): Promise<void> {
    this.abort();
    await this.#outage?.close();
    await this.#stream?.close();
    await this.#reporter?.close();
    this.#client.close();
  }

  get #calls() {
    const { node, clock, log } = this.#options;
    return { node, client: this.#client, clock, log, signal: this.#closing.signal };
  }

  #streamEvents(): StreamEvents {
    const { controller, metrics, events, nodeData } = this.#options;
    const prober = new PeerProber(this.#calls);
    const answerer = new QuestionAnswerer(this.#calls, nodeData);
    return {
      probe: (update) => prober.probe(update),
      question: (update) => answerer.answer(update),
      connected: ({ address, port }) => {
        metrics.connected(true);
        metrics.tokenRefused(false);
        this.#contact.connected(toText({ host: address, port }));
        events.connected(port === portOf(controller.url) ? address : '');
      },
      folded: (view) => {
        if (!events.accepts(view)) return;
        metrics.bookmark(view.revision);
        this.#contact.bookmark(view.revision);
        events.folded(view);
      },
      disconnected: (error, retryIn) => {
        metrics.connected(false);
        // The controller answers; a whole view may repair this.
        if (error instanceof FoldError) return this.#contact.refolding(error);
        this.#contact.disconnected(error, retryIn);
        if (error instanceof ControllerError && error.status === 401) metrics.tokenRefused(true);
        events.disconnected();
      },
      unfollowable: (error, retryIn) => {
        metrics.connected(false);
        metrics.unfollowable(error.message);
        this.#contact.unfollowable(error, retryIn);
        events.unfollowable(error.message);
      },
    };
  }
}

interface PeerProberOptions extends Caller {
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Connections at the same time; more are not made. */
const MOST_AT_ONCE = 16;

/**
 * Makes connections to other nodes, for their guarded apply, when the controller asks. It is the
 * controller that decides to which ones (controller/publish/inward-probing.ts).
 */
class PeerProber {
  readonly #options: PeerProberOptions;
  #inProgress = 0;

  constructor(options: PeerProberOptions) {
    this.#options = options;
  }

  /** Does not wait: the answer is sent by itself. */
  probe(update: ProbeUpdate): void {
    if (this.#inProgress >= MOST_AT_ONCE || this.#options.signal.aborted) return;
    this.#inProgress++;
    void this.#answer(update).finally(() => this.#inProgress--);
  }

  async #answer({ id, target, milliseconds }: ProbeUpdate): Promise<void> {
    const { node, log, signal } = this.#options;
    const patience = { milliseconds: Math.min(milliseconds, INWARD_PATIENCE.connection) };
    try {
      const body: PeerAnswer = { id, ...(await agentAttempt(target, patience)) };
      await callController(this.#options, AGENT_CALLS.probeAnswer, body, { signal });
    } catch (error) {
      // The node that asked counts it as not made.
      const fields = { node, stage: 'guard', error: (error as Error).message };
      log.debug('cannot send the result of a probe for another node', fields);
    }
  }
}

interface AuthoritiesOptions extends Omit<FetchedAuthoritiesOptions, 'origin' | 'fetch'> {
  /** Null: read from the API server. */
  readonly caFile: string | null;
  readonly api: ApiServer | null;
  readonly signal: AbortSignal;
}

/**
 * The CA certificates for the controller's certificate: from the file if one is given, else from
 * the API server. The caller gives at least one of the two.
 */
function controllerAuthorities({ caFile, api, signal, ...options }: AuthoritiesOptions): Authorities {
  if (caFile !== null || api === null) return fileAuthorities(caFile ?? '');
  const origin = 'ConfigMap nodewall-system/nodewall-ca';
  return new FetchedAuthorities({ ...options, origin, fetch: () => api.authorities(signal) });
}

interface ApiOutageOptions extends Omit<OutageOptions, 'events'> {
  readonly node: string;
  readonly log: Log;
  readonly seen: (seen: OutageState) => void;
  /** Called when the API server does not accept the token. */
  readonly refused: () => void;
}

/** An Outage that logs news only, not each request. */
function loggedOutage({ node, log, seen, refused, ...options }: ApiOutageOptions): Outage {
  return new Outage({
    ...options,
    events: {
      seen(now) {
        log.debug('read from the API server', { node, ...now });
        seen(now);
      },
      failed(error) {
        if (error instanceof ApiServerError && error.status === 401) refused();
        log.warn('cannot ask the API server for the controllers, the gate and deleted policies; retrying', {
          node,
          error: error.message,
        });
      },
      unregistered() {
        log.warn('no controller answers; deleted the APIService of the aggregated API', { node });
      },
    },
  });
}
