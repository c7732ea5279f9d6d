/** The kubelet's probes of an agent: `nodewall health-of` of the images, and its socket. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { output, run } from '../../build/programs/command.ts';
import { ROOT } from '../../build/programs/folder.ts';
import { type MetricsServer, serveMetrics } from '../../lib/process/metrics-server.ts';

describe('nodewall health-of', function () {
  this.timeout(60_000);
  let folder: string;
  let socket: string;
  let server: MetricsServer;
  let why: string | null;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-health-'));
    socket = join(folder, 'health.sock');
    await output(['cc', '-Os', '-Wall', '-Werror', '-o', launcher(), join(ROOT, 'bin/image-launcher.c')]);
  });
  after(() => rm(folder, { recursive: true }));
  beforeEach(async () => {
    why = null;
    const ready = (): string | null => why;
    server = await serveMetrics({
      listen: { socket },
      registry: new Registry(),
      healthy: () => null,
      ready,
    });
  });
  afterEach(() => server.close());

  const launcher = (): string => join(folder, 'nodewall');
  const healthOf = (path: string) => run([launcher(), 'health-of', socket, path]);

  it('ends with 0 where the process is well, else with 1 and the reason', async () => {
    const well = await healthOf('/healthz');
    assert.deepEqual([well.code, well.stdout], [0, 'ok\n']);
    why = 'no rules are applied yet';
    const notYet = await healthOf('/readyz');
    assert.deepEqual([notYet.code, notYet.stdout], [1, 'no rules are applied yet\n']);
    assert.equal((await healthOf('/healthz')).code, 0);
  });

  it('ends with 1 where nobody listens, and where nobody answers', async () => {
    await server.close();
    assert.equal((await healthOf('/healthz')).code, 1);
    const silent = createServer(() => {}).listen(socket);
    await once(silent, 'listening');
    const { code, stdout } = await healthOf('/healthz');
    assert.deepEqual([code, stdout], [1, 'no answer\n']);
    silent.close();
    await rm(socket, { force: true });
    server = await serveMetrics({
      listen: { socket },
      registry: new Registry(),
      healthy: () => null,
      ready: () => null,
    });
  });

  it('is answered after an agent that was killed has left its socket', async () => {
    await rm(socket);
    const left = createServer().listen(socket);
    await once(left, 'listening');
    assert.ok(existsSync(socket));
    const next = await serveMetrics({
      listen: { socket },
      registry: new Registry(),
      healthy: () => null,
      ready: () => null,
    });
    assert.equal((await healthOf('/readyz')).stdout, 'ok\n');
    left.close();
    await next.close();
  });
});
