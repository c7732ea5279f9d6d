import { type MetricsAnswer, MOST_METRICS, metricsAnswerPath } from '../../apis/node-metrics.ts';
import type { MetricsUpdate } from '../../apis/stream.ts';
import type { Log } from '../../lib/process/log.ts';
import type { ControllerClient } from '../receive/controller-client.ts';

interface MetricsAnswererParts {
  readonly node: string;
  readonly client: ControllerClient;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const TOO_MANY = `the agent has more than ${MOST_METRICS} bytes of metrics; scrape it at its --metrics-listen`;

/** Sends this agent's metrics to the controller, when a scraper asks for them there. */
export class MetricsAnswerer {
  readonly #parts: MetricsAnswererParts;
  readonly #text: () => Promise<string>;
  #isBusy = false;

  constructor(parts: MetricsAnswererParts, text: () => Promise<string>) {
    this.#parts = parts;
    this.#text = text;
  }

  /**
   * Does not wait: the answer is sent by itself. A further question meanwhile has no answer; only a
   * controller that the agent has just left, or a broken one, asks it.
   */
  take({ id }: MetricsUpdate): void {
    if (this.#isBusy || this.#parts.signal.aborted) return;
    this.#isBusy = true;
    void this.#answer(id).finally(() => {
      this.#isBusy = false;
    });
  }

  async #answer(id: string): Promise<void> {
    const { node, client, log, signal } = this.#parts;
    try {
      const path = metricsAnswerPath(node);
      const whole: MetricsAnswer = { id, text: await this.#text() };
      const isTooLarge = Buffer.byteLength(JSON.stringify(whole)) > MOST_METRICS;
      const body: MetricsAnswer = isTooLarge ? { id, problem: TOO_MANY } : whole;
      // On a connection of its own: reports do not wait for it.
      const response = await client.request({ method: 'POST', path, body, signal, isStream: true });
      response.resume();
    } catch (error) {
      // The scraper is told that there was no answer.
      const fields = { node, stage: 'receive', error: (error as Error).message };
      log.debug('cannot send the metrics that a scraper asked for', fields);
    }
  }
}
