import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WebhookPaths } from '../../controller/kubeapi/certificates/webhook-configurations.ts';
import { systemClock } from '../../lib/process/clock.ts';
import { createAuthority } from '../cluster/certificates.ts';
import { freePorts } from '../cluster/daemon.ts';
import { succeeds, until } from '../kernel/until.ts';
import { DIE_WITH_PARENT } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { Clients, type Ports } from './clients.ts';
import { rssOfTree } from './memory.ts';

interface Served {
  readonly ca: string;
  readonly key: string;
}

/** `nodewall controller` with all its ports, and clients of them. */
export class RunningController extends Clients {
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly caFile: string;
  readonly ca: string;
  readonly #paths = new WebhookPaths(systemClock);
  #log = '';

  private constructor(child: ChildProcess, ports: Ports, served: Served, folder: string) {
    const { ca, key } = served;
    super(ports, ca);
    this.#paths.setKey(key);
    this.#child = child;
    this.#folder = folder;
    this.ca = ca;
    this.caFile = join(folder, 'ca');
    for (const output of [child.stdout, child.stderr])
      output?.setEncoding('utf8').on('data', (text: string) => {
        this.#log += text;
      });
  }

  /** @param apiServer URL */
  static async start(apiServer: string): Promise<RunningController> {
    const folder = await mkdtemp(join(tmpdir(), 'nodewall-abuse-'));
    const authority = await createAuthority('servers');
    const names = ['localhost', '127.0.0.1'];
    const { certificate, key } = await authority.issue({ commonName: 'c', names, usage: 'server' });
    const file = async (name: string, text: string): Promise<string> => {
      await writeFile(join(folder, name), text);
      return join(folder, name);
    };
    await file('ca', authority.certificate);
    const [agents = 0, webhook = 0, health = 0] = await freePorts(3);
    const options = {
      kubeconfig: await file('kubeconfig', JSON.stringify(kubeconfig(apiServer))),
      listen: `0.0.0.0:${agents}`,
      'webhook-listen': `0.0.0.0:${webhook}`,
      'metrics-listen': `0.0.0.0:${health}`,
      'tls-cert-file': await file('cert', certificate),
      'tls-key-file': await file('key', key),
      'feature-gates': 'NodeNetworkPolicy=true',
      'log-level': 'warn',
    };
    const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
    const command = [...DIE_WITH_PARENT, NODEWALL, 'controller', ...args];
    const child = spawn('setpriv', command, { stdio: ['ignore', 'pipe', 'pipe'] });
    const ports = { agents, webhook, health };
    const running = new RunningController(child, ports, { ca: authority.certificate, key }, folder);
    const detail = { detail: () => running.log };
    await until('the controller is ready', () => succeeds(running.healthy('/readyz')), detail);
    return running;
  }

  get log(): string {
    return this.#log;
  }

  /** By which the API server asks the webhook. */
  get reviewPath(): string {
    return this.#paths.replacement('validate', '', false) ?? '';
  }

  /** Bytes, of the process and its children. */
  get rss(): number {
    return rssOfTree(this.#child.pid ?? 0);
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async healthy(path = '/healthz'): Promise<void> {
    const { status } = await fetch(`http://127.0.0.1:${this.ports.health}${path}`);
    if (status !== 200) throw new Error(`${path}: ${status}`);
  }

  /** A file with a token. */
  async tokenFile(token: string): Promise<string> {
    const path = join(this.#folder, token);
    await writeFile(path, token);
    return path;
  }

  async close(): Promise<void> {
    this.endClients();
    if (this.isRunning) {
      const ended = once(this.#child, 'exit');
      this.#child.kill('SIGTERM');
      await ended;
    }
    await rm(this.#folder, { recursive: true });
  }
}

/** For a server without TLS. */
function kubeconfig(server: string): object {
  const name = 'test';
  return {
    clusters: [{ name, cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name, user: {} }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  };
}
