import type { NodeReport } from '../../apis/node-report.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { WorkQueue } from '../../lib/process/work-queue.ts';
import type { AgedReport, NodeReports } from '../publish/node-reports.ts';
import type { ReportBatch } from '../publish/peer-calls.ts';

export interface ReportRelayOptions {
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
