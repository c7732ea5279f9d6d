import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type Authority, type Certificate, createAuthority } from '../cluster/certificates.ts';
import { Clients, type Ports } from './clients.ts';
import type { ServedInput, ServedStats } from './served.ts';

/** The servers of a controller in a process of their own (served.ts), and clients of them. */
export class ControlPlane extends Clients {
  readonly #child: ChildProcess;
  readonly #proxies: Authority;

  private constructor(child: ChildProcess, ports: Ports, ca: string, proxies: Authority) {
    super(ports, ca);
    this.#child = child;
    this.#proxies = proxies;
  }

  static async start(limits: ServedInput['limits'] = {}): Promise<ControlPlane> {
    const authorities = [await createAuthority('servers'), await createAuthority('front proxies')] as const;
    const pair = await authorities[0].issue({ commonName: 'c', names: ['localhost'], usage: 'server' });
    const input = { key: pair.key, cert: pair.certificate, clientCa: authorities[1].certificate, limits };
    const child = fork(join(import.meta.dirname, 'served.ts'), [JSON.stringify(input)], { execArgv: [] });
    const [ports] = (await once(child, 'message')) as [Ports];
    return new ControlPlane(child, ports, authorities[0].certificate, authorities[1]);
  }

  /** Ends the attackers, and the process. */
  async close(): Promise<void> {
    this.endClients();
    if (this.#child.exitCode !== null) throw new Error('the controller has ended');
    this.#child.disconnect();
    await once(this.#child, 'exit');
  }

  frontProxy(commonName = 'front-proxy-client'): Promise<Certificate> {
    return this.#proxies.issue({ commonName, usage: 'client' });
  }

  /** Values are those since the last call. */
  async stats(): Promise<ServedStats> {
    this.#child.send('stats');
    const [stats] = (await once(this.#child, 'message')) as [ServedStats];
    return stats;
  }

  /** A change for all agents. */
  change(): void {
    this.#child.send('change');
  }
}
