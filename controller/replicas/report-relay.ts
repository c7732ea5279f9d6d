import type { NodeReport } from '../../apis/stream.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
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
const FIRST_RETRY = 250;
const LONGEST_RETRY = 5_000;
/** Reports in a batch; one has less than 1 kB, unless its node fails to enforce many rules. */
const MOST = 500;
/** Size of the reports in a batch as JSON, below MOST_BATCH (bytes). */
const LARGEST = 2 << 20;

/**
 * Passes agents' reports on to the other controllers: all of them when a controller appears, then
 * each as it comes. A controller that isn't reached keeps one report of each node waiting.
 */
export class ReportRelay {
  readonly #options: ReportRelayOptions;
  readonly #peers = new Map<string, Peer>();

  constructor(options: ReportRelayOptions) {
    this.#options = options;
  }

  /** @param peers HOST:PORT each */
  setPeers(peers: readonly string[]): void {
    const wanted = new Set(peers);
    for (const [name, peer] of this.#peers) {
      if (wanted.has(name)) continue;
      this.#peers.delete(name);
      peer.close();
    }
    for (const name of wanted)
      if (!this.#peers.has(name)) this.#peers.set(name, new Peer(name, this.#options));
  }

  pass(report: NodeReport): void {
    for (const peer of this.#peers.values()) peer.add(report.node);
  }

  close(): void {
    this.setPeers([]);
  }
}

/** The reports that one controller must still get. */
class Peer {
  readonly #name: string;
  readonly #options: ReportRelayOptions;
  readonly #closing = new AbortController();
  readonly #retries: BackOff;
  /** Names of the nodes whose reports are due. */
  readonly #due: Set<string>;
  #isFailing = false;
  #cancel: (() => void) | null = null;
  #isSending = false;

  constructor(name: string, options: ReportRelayOptions) {
    this.#name = name;
    this.#options = options;
    this.#retries = new BackOff({ first: FIRST_RETRY, longest: LONGEST_RETRY, random: options.random });
    this.#due = new Set(options.reports.nodes());
    this.#sendWithin(0);
  }

  add(node: string): void {
    this.#due.add(node);
    if (!this.#isSending) this.#sendWithin(GATHER);
  }

  close(): void {
    this.#closing.abort();
    this.#cancel?.();
  }

  #sendWithin(milliseconds: number): void {
    this.#cancel ??= this.#options.clock.after(milliseconds, () => {
      this.#cancel = null;
      void this.#send();
    });
  }

  async #send(): Promise<void> {
    this.#isSending = true;
    const reports = this.#next();
    for (const { report } of reports) this.#due.delete(report.node);
    let wait = GATHER;
    try {
      if (reports.length > 0) await this.#options.send(this.#name, { reports }, this.#closing.signal);
      this.#retries.reset();
      this.#tell(null);
    } catch (error) {
      for (const { report } of reports) this.#due.add(report.node);
      wait = this.#retries.next();
      this.#tell(error as Error);
    }
    this.#isSending = false;
    if (!this.#closing.signal.aborted && this.#due.size > 0) this.#sendWithin(wait);
  }

  /** The first of the due reports, as many as fit. */
  #next(): AgedReport[] {
    const batch: AgedReport[] = [];
    let size = 0;
    for (const node of this.#due) {
      const one = this.#options.reports.aged(node);
      if (one === null) {
        // Its Node was deleted.
        this.#due.delete(node);
        continue;
      }
      size += JSON.stringify(one).length;
      if (batch.length > 0 && (batch.length === MOST || size > LARGEST)) break;
      batch.push(one);
    }
    return batch;
  }

  #tell(error: Error | null): void {
    const isFailing = error !== null;
    if (isFailing === this.#isFailing || this.#closing.signal.aborted) return;
    this.#isFailing = isFailing;
    this.#options.failing(this.#name, error);
  }
}
