import type { Namespace } from '../netns/namespace.ts';

/** One series of an answer, with its last value. */
interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Target {
  readonly job: string;
  readonly instance: string;
  /** Empty where the last scrape had an answer of 200. */
  readonly error: string;
}

interface ActiveAlert {
  readonly labels: Readonly<Record<string, string>>;
  readonly state: 'pending' | 'firing';
}

/** The HTTP API of a Prometheus that listens in a network namespace. */
export class PrometheusApi {
  readonly #namespace: Pick<Namespace, 'run'>;
  readonly #address: string;

  /** @param address HOST:PORT */
  constructor(namespace: Pick<Namespace, 'run'>, address: string) {
    this.#namespace = namespace;
    this.#address = address;
  }

  /** The series that a query gives now. */
  async query(expression: string): Promise<Sample[]> {
    const { data } = await this.#ask<{ result: { metric: Sample['labels']; value: [number, string] }[] }>(
      `query?query=${encodeURIComponent(expression)}`,
    );
    return data.result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));
  }

  async targets(): Promise<Target[]> {
    const { data } = await this.#ask<{
      activeTargets: { labels: { job: string; instance: string }; lastError: string }[];
    }>('targets?state=active');
    return data.activeTargets.map(({ labels, lastError }) => ({ ...labels, error: lastError }));
  }

  async alerts(): Promise<ActiveAlert[]> {
    const { data } = await this.#ask<{ alerts: ActiveAlert[] }>('alerts');
    return data.alerts;
  }

  async #ask<T>(path: string): Promise<{ data: T }> {
    const url = `http://${this.#address}/api/v1/${path}`;
    const program = 'process.stdout.write(await (await fetch(process.argv[1])).text())';
    const argv = [process.execPath, '--input-type=module', '--eval', program, url];
    return JSON.parse((await this.#namespace.run(argv)).stdout);
  }
}
