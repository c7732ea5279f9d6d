import type { NodeAnswer, NodeQuestion, PassedQuestion, QuestionAnswer } from '../../apis/node-question.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { InwardQuestion, InwardResult, PeerAnswer } from '../../apis/probes.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { WorkQueue } from '../../lib/process/work-queue.ts';
import type { QuestionsElsewhere } from '../publish/node-questions.ts';
import type { AgedReport, NodeReports } from '../publish/node-reports.ts';
import type { PassedProbes, ReportBatch } from '../publish/peer-calls.ts';

interface ReportRelayOptions {
  /** Resolves when the controller at `peer` (HOST:PORT) has taken the batch; throws otherwise. */
  readonly send: (peer: string, batch: ReportBatch, signal: AbortSignal) => Promise<void>;
  readonly reports: Pick<NodeReports, 'nodes' | 'aged'>;
  readonly clock: Clock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  /** Called when a peer stops to take reports, and with null when it takes them again. */
  readonly failing: (peer: string, error: Error | null) => void;
}

/** Milliseconds: the time in which reports are gathered, and the waits after failures. */
const GATHER = 100;
const RETRIES = { first: 250, longest: 5_000 };
/** Reports in a batch; one has less than 1 kB, unless its node fails to enforce many rules. */
const MOST = 500;
/** Size of the reports in a batch as JSON, below MOST_BATCH (bytes). */
const LARGEST = 2 << 20;

interface Peer {
  /** Names of the nodes whose reports it must still get. */
  readonly due: Set<string>;
  readonly closing: AbortController;
  isFailing: boolean;
}

/**
 * Passes agents' reports on to the other controllers: all of them when a controller appears, then
 * each as it comes. A controller that isn't reached keeps one report of each node waiting.
 */
export class ReportRelay {
  readonly #options: ReportRelayOptions;
  readonly #peers = new Map<string, Peer>();
  /** Peers with reports that are due. */
  readonly #queue: WorkQueue;

  constructor(options: ReportRelayOptions) {
    const { clock, random } = options;
    this.#options = options;
    this.#queue = new WorkQueue({
      clock,
      work: (peer) => this.#send(peer),
      atOnce: Number.POSITIVE_INFINITY,
      waits: { ...RETRIES, random },
    });
  }

  /** @param peers HOST:PORT each */
  setPeers(peers: readonly string[]): void {
    const wanted = new Set(peers);
    for (const [name, { closing }] of this.#peers) {
      if (wanted.has(name)) continue;
      closing.abort();
      this.#peers.delete(name);
      this.#queue.remove(name);
      this.#queue.forget(name);
    }
    for (const name of wanted) {
      if (this.#peers.has(name)) continue;
      const due = new Set(this.#options.reports.nodes());
      this.#peers.set(name, { due, closing: new AbortController(), isFailing: false });
      this.#queue.add(name);
    }
  }

  pass(report: NodeReport): void {
    for (const [name, peer] of this.#peers) {
      peer.due.add(report.node);
      // The retry sends all that is due by then.
      if (!peer.isFailing) this.#queue.addAfter(name, GATHER);
    }
  }

  close(): void {
    this.setPeers([]);
    void this.#queue.close();
  }

  async #send(name: string): Promise<void> {
    const peer = this.#peers.get(name);
    if (peer === undefined) return;
    const { due, closing } = peer;
    const reports = this.#next(due);
    for (const { report } of reports) due.delete(report.node);
    let failure: Error | null = null;
    try {
      if (reports.length > 0) await this.#options.send(name, { reports }, closing.signal);
    } catch (error) {
      failure = error as Error;
    }
    if (closing.signal.aborted) return;
    if (failure === null) {
      this.#queue.forget(name);
      if (due.size > 0) this.#queue.addAfter(name, GATHER);
    } else {
      for (const { report } of reports) due.add(report.node);
      // The earliest of several times counts.
      this.#queue.remove(name);
      this.#queue.addRateLimited(name);
    }
    if ((failure !== null) === peer.isFailing) return;
    peer.isFailing = failure !== null;
    this.#options.failing(name, failure);
  }

  /** The first of the due reports, as many as fit. */
  #next(due: Set<string>): AgedReport[] {
    const batch: AgedReport[] = [];
    let size = 0;
    for (const node of due) {
      const one = this.#options.reports.aged(node);
      if (one === null) {
        // Its Node was deleted.
        due.delete(node);
        continue;
      }
      size += JSON.stringify(one).length;
      if (batch.length > 0 && (batch.length === MOST || size > LARGEST)) break;
      batch.push(one);
    }
    return batch;
  }
}

interface ProbeRelayOptions {
  /** Resolves with the results of the controller at `peer` (HOST:PORT), none for an answer. */
  readonly send: (peer: string, passed: PassedProbes) => Promise<readonly InwardResult[]>;
  /** The other controllers, HOST:PORT each. */
  readonly peers: () => readonly string[];
}

/** Requests to other controllers at the same time; more are not sent. */
const MOST_PROBES = 64;

/** Passes probes on to the other controllers, and agents' answers to whom they belong. */
export class ProbeRelay {
  readonly #options: ProbeRelayOptions;
  #inProgress = 0;

  constructor(options: ProbeRelayOptions) {
    this.#options = options;
  }

  /** One after the other: a probe is made once. */
  async ask(node: string, question: InwardQuestion): Promise<readonly InwardResult[]> {
    const made: InwardResult[] = [];
    for (const peer of this.#options.peers()) {
      const probes = question.probes.filter(({ name }) => !made.some((one) => one.name === name));
      if (probes.length === 0) break;
      const results = await this.#send(peer, { kind: 'question', node, ...question, probes });
      made.push(...results.filter((one) => !('notMade' in one)));
    }
    return made;
  }

  /** To all: an answer does not say who asked. */
  answered(prober: string, answer: PeerAnswer): void {
    for (const peer of this.#options.peers()) void this.#send(peer, { kind: 'answer', prober, answer });
  }

  async #send(peer: string, passed: PassedProbes): Promise<readonly InwardResult[]> {
    if (this.#inProgress >= MOST_PROBES) return [];
    this.#inProgress++;
    try {
      return await this.#options.send(peer, passed);
    } catch {
      // One that fails is down or too busy: the probe was not made, and does not count.
      return [];
    } finally {
      this.#inProgress--;
    }
  }
}

interface QuestionRelayOptions {
  /** Null: the controller at `peer` (HOST:PORT) has none; or it was an answer. */
  readonly send: (peer: string, passed: PassedQuestion) => Promise<QuestionAnswer | null>;
  /** The other controllers, HOST:PORT each. */
  readonly peers: () => readonly string[];
}

/** Requests to other controllers at the same time; more are not sent. */
const MOST_QUESTIONS = 256;

/** Passes questions to agents on to the other controllers, and agents' answers. */
export class QuestionRelay implements QuestionsElsewhere {
  readonly #options: QuestionRelayOptions;
  #inProgress = 0;

  constructor(options: QuestionRelayOptions) {
    this.#options = options;
  }

  /** All at once: the first that has the agent's stream counts. */
  async ask(node: string, question: NodeQuestion): Promise<QuestionAnswer | null> {
    const asked = this.#options.peers().map(async (peer) => {
      const answered = await this.#send(peer, { kind: 'question', node, ...question });
      return answered ?? Promise.reject(new Error(`${peer} has no stream of ${node}`));
    });
    return Promise.any(asked).catch(() => null);
  }

  /** To all: an answer does not say who asked. */
  answered(node: string, answer: NodeAnswer): void {
    for (const peer of this.#options.peers()) void this.#send(peer, { kind: 'answer', node, answer });
  }

  async #send(peer: string, passed: PassedQuestion): Promise<QuestionAnswer | null> {
    if (this.#inProgress >= MOST_QUESTIONS) return null;
    this.#inProgress++;
    try {
      return await this.#options.send(peer, passed);
    } catch {
      // One that fails is down, too busy, or of an earlier version.
      return null;
    } finally {
      this.#inProgress--;
    }
  }
}
