/**
 * A stranger sends one token after the other to the port for agents, and the API server answers no
 * review of them: the Lease must still be renewed.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Agent, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { REVIEW_QUEUE } from '../../controller/publish/auth.ts';
import { Controller } from '../../controller/run/controller.ts';
import { systemClock } from '../../lib/process/clock.ts';
import { EXIT } from '../../lib/process/exit.ts';
import type { Log } from '../../lib/process/log.ts';
import { createAuthority } from '../cluster/certificates.ts';
import { freePorts } from '../cluster/daemon.ts';
import { until } from '../kernel/until.ts';

const TOKENS = 300;

/** An API server without objects besides one Lease, which answers no review. */
class SilentOnReviews {
  readonly server: Server = createServer((incoming, response) => void this.#answer(incoming, response));
  /** Reviews that wait. */
  reviews = 0;
  /** Of the Lease, while as many reviews waited as may. */
  renewals = 0;
  #lease: Record<string, unknown> | null = null;

  async #answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://api');
    const body = Buffer.concat(await incoming.toArray()).toString();
    if (pathname.endsWith('/tokenreviews')) {
      this.reviews++;
      response.once('close', () => this.reviews--);
      return;
    }
    response.setHeader('content-type', 'application/json');
    if (incoming.method === 'POST' || incoming.method === 'PUT') {
      if (pathname.includes('/leases')) {
        this.#lease = { ...JSON.parse(body), metadata: { name: 'lease', resourceVersion: '1' } };
        if (this.reviews === REVIEW_QUEUE.atOnce) this.renewals++;
      }
      response.end(JSON.stringify(this.#lease));
    } else if (searchParams.get('watch') === 'true') response.flushHeaders();
    else if (/\/leases\/[^/]+$/.test(pathname)) {
      if (this.#lease === null) response.statusCode = 404;
      response.end(JSON.stringify(this.#lease ?? { kind: 'Status', code: 404, reason: 'NotFound' }));
    } else
      response.end(
        JSON.stringify({ kind: 'List', metadata: { resourceVersion: '1' }, items: [], resources: [] }),
      );
  }
}

describe('a flood of tokens to port 8443', () => {
  it('does not keep the leader from renewing its Lease', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'nodewall-tokens-'));
    const { certificate, key } = await (await createAuthority('a CA')).issue({
      commonName: 'controller',
      usage: 'server',
    });
    const [tlsCertFile, tlsKeyFile] = [join(folder, 'cert'), join(folder, 'key')];
    await writeFile(tlsCertFile, certificate);
    await writeFile(tlsKeyFile, key);
    const api = new SilentOnReviews();
    await once(api.server.listen(0, '127.0.0.1'), 'listening');
    const kubeConfig = new KubeConfig();
    const at = `http://127.0.0.1:${(api.server.address() as AddressInfo).port}`;
    kubeConfig.loadFromClusterAndUser({ name: 'a', server: at, skipTLSVerify: true }, { name: 'a' });
    const [port = 0] = await freePorts(1);
    const said: string[] = [];
    const say = (text: string): void => void said.push(text);
    const controller = new Controller(
      {
        options: {
          tlsCertFile,
          tlsKeyFile,
          tokenAudiences: '',
          relistPeriod: 900,
          listen: '',
          logLevel: 'info',
        },
        listen: { host: '127.0.0.1', port },
        webhook: null,
        peers: [],
        gate: true,
        config: DEFAULT_CONFIG,
        kubeConfig,
        log: { info: say, warn: say, error: say, debug: () => {} } as unknown as Log,
      },
      { clock: systemClock, random: Math.random, identity: 'a' },
    );
    const running = controller.run();
    const sockets = new Agent({ keepAlive: true, maxSockets: TOKENS });
    try {
      await until(
        'it leads',
        async () => said.includes('elected leader') && said.some((text) => text.startsWith('serving agents')),
      );
      for (let index = 0; index < TOKENS; index++) {
        request({
          host: '127.0.0.1',
          port,
          path: '/apis/node.nodewall.io/v1alpha1/nodeviews?watch=true',
          headers: { authorization: `Bearer token-${index}` },
          rejectUnauthorized: false,
          agent: sockets,
        })
          .on('error', () => {})
          .end();
      }
      await until(
        'the Lease is renewed twice while as many reviews wait as may',
        async () => api.renewals >= 2,
      );
    } finally {
      sockets.destroy();
      // One that has failed waits no more, and this process is to end by its error.
      if (process.listenerCount('SIGTERM') > 1) process.emit('SIGTERM', 'SIGTERM');
      assert.equal(await running, EXIT.done);
      api.server.closeAllConnections();
      api.server.close();
      await rm(folder, { recursive: true });
    }
  });
});
