import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { get } from 'node:http';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { freePorts } from '../cluster/ports.ts';
import { until } from '../kernel/until.ts';
import { NODEWALL } from '../program.ts';

export interface ControllerProcessOptions {
  /** Path. */
  readonly kubeconfig: string;
  /** Of loopback, where agents are served. */
  readonly port: number;
  /** Those of the other controllers. */
  readonly peers: readonly number[];
}

/** `nodewall controller` on loopback. */
export class ControllerProcess {
  readonly port: number;
  /** The lines that it wrote so far. */
  readonly log: string[] = [];
  readonly #child: ChildProcess;
  readonly #metrics: number;

  private constructor(child: ChildProcess, port: number, metrics: number) {
    this.port = port;
    this.#child = child;
    this.#metrics = metrics;
  }

  static async start({ kubeconfig, port, peers }: ControllerProcessOptions): Promise<ControllerProcess> {
    const [metrics = 0] = await freePorts(1);
    const options = { kubeconfig, listen: `127.0.0.1:${port}`, 'metrics-listen': `127.0.0.1:${metrics}` };
    const args = [
      ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]),
      ...peers.map((other) => `--peer=127.0.0.1:${other}`),
    ];
    const child = spawn(NODEWALL, ['controller', ...args, '--log-format', 'json'], {
      stdio: ['ignore', 'inherit', 'pipe'],
    });
    const controller = new ControllerProcess(child, port, metrics);
    createInterface({ input: child.stderr }).on('line', (line) => void controller.log.push(line));
    return controller;
  }

  isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Status and text of /readyz. */
  ready(): Promise<string> {
    return this.#got('/readyz');
  }

  async leads(): Promise<boolean> {
    return /^nodewall_controller_leader 1$/m.test(await this.#got('/metrics'));
  }

  async untilReady(): Promise<void> {
    const isReady = async (): Promise<boolean> => (await this.ready()) === '200 ok';
    await until('it serves', isReady, { detail: () => this.log.join('\n') });
  }

  async untilLeading(): Promise<void> {
    await until('it leads', () => this.leads(), { detail: () => this.log.join('\n') });
  }

  /** Returns its exit status. */
  async stop(signal: NodeJS.Signals): Promise<number | null> {
    const ended = once(this.#child, 'exit');
    this.#child.kill(signal);
    const [code] = await ended;
    return code;
  }

  async #got(path: string): Promise<string> {
    const request = get({ host: '127.0.0.1', port: this.#metrics, path, agent: false });
    const answered = await once(request, 'response').catch(() => null);
    return answered === null
      ? 'nobody listens'
      : `${answered[0].statusCode} ${(await text(answered[0])).trim()}`;
  }
}
