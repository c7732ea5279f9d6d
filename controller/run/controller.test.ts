import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { systemClock } from '../../lib/process/clock.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { Log } from '../../lib/process/log.ts';
import { createAuthority } from '../../test/cluster/certificates.ts';
import { freePorts } from '../../test/cluster/daemon.ts';
import { until } from '../../test/kernel/until.ts';
import { LEAST_SERVING } from '../replicas/replicas.ts';
import { Controller } from './controller.ts';
import type { ControllerOptions } from './controller-context.ts';

describe('a controller without an API server', () => {
  let folder: string;
  let tls: Pick<ControllerOptions, 'tlsCertFile' | 'tlsKeyFile'>;
  let said: string[];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-controller-'));
    const authority = await createAuthority('a CA');
    const { certificate, key } = await authority.issue({ commonName: 'controller', usage: 'server' });
    tls = { tlsCertFile: join(folder, 'cert'), tlsKeyFile: join(folder, 'key') };
    await writeFile(join(folder, 'cert'), certificate);
    await writeFile(join(folder, 'key'), key);
  });
  after(() => rm(folder, { recursive: true }));
  beforeEach(() => {
    said = [];
  });

  async function make(options: Partial<ControllerOptions>, webhook: number | null = null) {
    const [api = 0, port = 0, metrics = 0] = await freePorts(3);
    const kubeConfig = new KubeConfig();
    const server = `http://127.0.0.1:${api}`;
    kubeConfig.loadFromClusterAndUser({ name: 'nowhere', server, skipTLSVerify: false }, { name: 'nobody' });
    const say = (text: string): void => void said.push(text);
    const controller = new Controller(
      {
        options: {
          listen: `127.0.0.1:${port}`,
          metricsListen: `127.0.0.1:${metrics}`,
          tokenAudiences: '',
          relistPeriod: 900,
          logLevel: 'info',
          ...options,
        },
        listen: { host: '127.0.0.1', port },
        webhook: webhook === null ? null : { host: '127.0.0.1', port: webhook },
        peers: [],
        gate: true,
        config: DEFAULT_CONFIG,
        kubeConfig,
        log: { info: say, warn: () => {}, error: () => {}, debug: () => {} } as unknown as Log,
      },
      { clock: systemClock, random: Math.random, identity: 'a' },
    );
    const ready = async (): Promise<string> => {
      const response = await fetch(`http://127.0.0.1:${metrics}/readyz`);
      return `${response.status} ${(await response.text()).trim()}`;
    };
    return { controller, ready };
  }

  it('waits for the API server, and exits when asked to stop', async () => {
    const { controller, ready } = await make({});
    const running = controller.run();
    await until('it says what is missing', async () => (await ready().catch(() => '')) !== '');
    assert.match(await ready(), /^503 .*listed/);
    process.emit('SIGTERM', 'SIGTERM');
    assert.equal(await running, EXIT.done);
    assert.deepEqual(said, ['serving health and metrics', 'stopping; agents keep their rules', 'exiting']);
    await assert.rejects(ready());
  });

  it('keeps serving in a pod for a while after a stop request, unless it is asked twice', async () => {
    for (const isToldTwice of [false, true]) {
      said = [];
      const { controller, ready } = await make({ podName: 'self' });
      const running = controller.run();
      await until('it says what is missing', async () => (await ready().catch(() => '')) !== '');
      const told = performance.now();
      process.emit('SIGTERM', 'SIGTERM');
      await until('it was told', async () => said.length === 2);
      assert.match(await ready(), /^503 .*listed/);
      if (isToldTwice) process.emit('SIGTERM', 'SIGTERM');
      assert.equal(await running, EXIT.done);
      assert.equal(performance.now() - told >= LEAST_SERVING, !isToldTwice);
      assert.equal(said.includes('exiting'), !isToldTwice);
    }
  });

  it('answers admission reviews as soon as it has a certificate, and stops answering at the end', async () => {
    const [webhook = 0] = await freePorts(1);
    const { controller } = await make(tls, webhook);
    const running = controller.run();
    await until('it serves webhooks', async () => said.includes('serving webhooks'));
    process.emit('SIGTERM', 'SIGTERM');
    assert.equal(await running, EXIT.done);
    const again = createServer().listen(webhook, '127.0.0.1');
    await once(again, 'listening');
    again.close();
  });

  it('exits with the error of a failed part', async () => {
    const refused = (status: number, message: RegExp) => (error: unknown) =>
      error instanceof CommandError && error.status === status && message.test(error.message);
    const files = { tlsCertFile: join(folder, 'none'), tlsKeyFile: join(folder, 'none') };
    const { controller: unreadable, ready } = await make(files);
    await assert.rejects(unreadable.run(), refused(EXIT.invalid, /^--tls-cert-file.*ENOENT/));
    await assert.rejects(ready());
    const busy = createServer().listen(0, '127.0.0.1');
    await once(busy, 'listening');
    const address = busy.address();
    const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
    const { controller: webhook } = await make(tls, port);
    await assert.rejects(webhook.run(), refused(EXIT.refused, /^--webhook-listen: .*EADDRINUSE/));
    const { controller: metrics } = await make({ metricsListen: `127.0.0.1:${port}` });
    await assert.rejects(metrics.run(), refused(EXIT.refused, /^--metrics-listen: .*EADDRINUSE/));
    busy.close();
  });
});
