import type { MetricsAnswer, PassedMetrics, Scraped } from '../../apis/node-metrics.ts';
import type { MetricsElsewhere } from '../publish/node-metrics.ts';

export interface MetricsRelayOptions {
  /** Null: the controller at `peer` (HOST:PORT) has none; or it was an answer. */
  readonly send: (peer: string, passed: PassedMetrics) => Promise<Scraped | null>;
  /** The other controllers, HOST:PORT each. */
  readonly peers: () => readonly string[];
}

/** Requests to other controllers at the same time; more are not sent. */
const MOST_AT_ONCE = 256;

/** Asks the other controllers for agents' metrics, and passes agents' answers on to them. */
export class MetricsRelay implements MetricsElsewhere {
  readonly #options: MetricsRelayOptions;
  #inProgress = 0;

  constructor(options: MetricsRelayOptions) {
    this.#options = options;
  }

  /** All at once: the first that has the agent's stream counts. */
  async ask(node: string): Promise<Scraped | null> {
    const asked = this.#options.peers().map(async (peer) => {
      const scraped = await this.#send(peer, { kind: 'question', node });
      return scraped ?? Promise.reject(new Error(`${peer} has no stream of ${node}`));
    });
    return Promise.any(asked).catch(() => null);
  }

  /** To all: an answer does not say who asked. */
  answered(node: string, answer: MetricsAnswer): void {
    for (const peer of this.#options.peers()) void this.#send(peer, { kind: 'answer', node, answer });
  }

  async #send(peer: string, passed: PassedMetrics): Promise<Scraped | null> {
    if (this.#inProgress >= MOST_AT_ONCE) return null;
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
