import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Log } from '../../../lib/process/log.ts';
import { type FakeClock, fakeClock } from '../../../test/fake/fake-clock.ts';
import { CniCache } from './cni-cache.ts';

const result = (name: string, address: string) =>
  JSON.stringify({
    kind: 'cniCacheV1',
    containerId: name,
    ifName: 'eth0',
    networkName: 'net',
    cniArgs: [
      ['K8S_POD_NAMESPACE', 'ns'],
      ['K8S_POD_NAME', name],
    ],
    result: { ips: [{ address }] },
  });

describe("following CNI's results", () => {
  let folder: string;
  let clock: FakeClock;
  let cache: CniCache;
  let news: EventEmitter;
  let logged: string[];
  const there = new Map<string, readonly string[]>();
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-cni-'));
    clock = fakeClock();
    news = new EventEmitter();
    logged = [];
    there.clear();
  });
  afterEach(async () => {
    await cache.close();
    await rm(folder, { recursive: true });
  });

  async function start(path = folder): Promise<void> {
    const say = (message: string) => logged.push(message);
    const log = { info: say, warn: say } as unknown as Log;
    cache = new CniCache({
      path,
      log,
      clock,
      changed(name, attachment) {
        if (attachment === null) there.delete(name);
        else there.set(name, attachment.addresses);
        news.emit('changed');
      },
    });
    await cache.start();
  }

  async function until(wanted: Record<string, string[]>): Promise<void> {
    const text = JSON.stringify(Object.entries(wanted).sort());
    while (JSON.stringify([...there].sort()) !== text) await once(news, 'changed');
  }

  it('has what is there, what is written, and what is removed', async () => {
    await writeFile(join(folder, 'a'), result('a', '10.0.0.1/24'));
    await start();
    assert.deepEqual([...there], [['a', ['10.0.0.1']]]);
    await writeFile(join(folder, 'b'), result('b', '10.0.0.2/24'));
    await until({ a: ['10.0.0.1'], b: ['10.0.0.2'] });
    await rm(join(folder, 'a'));
    await until({ b: ['10.0.0.2'] });
    await writeFile(join(folder, 'b'), result('b', '10.0.0.3/24'));
    await until({ b: ['10.0.0.3'] });
    assert.deepEqual(logged, []);
  });

  it('names files that are not valid once, and no others suffer', async () => {
    await writeFile(join(folder, 'a'), '{');
    await writeFile(join(folder, 'large'), ' '.repeat((1 << 20) + 1));
    await symlink('/etc/passwd', join(folder, 'link'));
    await mkdir(join(folder, 'folder'));
    await writeFile(join(folder, 'b'), result('b', '10.0.0.2/24'));
    await start();
    assert.deepEqual([...there], [['b', ['10.0.0.2']]]);
    assert.equal(logged.length, 4);
    clock.pass(10_000);
    await writeFile(join(folder, 'a'), result('a', '10.0.0.1/24'));
    await until({ a: ['10.0.0.1'], b: ['10.0.0.2'] });
    assert.equal(logged.length, 4);
  });

  it('looks no more once it is closed, even if it reads the directory just then', async () => {
    await writeFile(join(folder, 'a'), result('a', '10.0.0.1/24'));
    news.once('changed', () => void cache.close());
    await start();
    assert.deepEqual(clock.waiting(), []);
  });

  it('goes on without the directory, and finds it when it is made', async () => {
    const path = join(folder, 'results');
    await start(path);
    assert.equal(logged.length, 1);
    await mkdir(path);
    await writeFile(join(path, 'a'), result('a', '10.0.0.1/24'));
    clock.pass(10_000);
    await until({ a: ['10.0.0.1'] });
    await rm(join(path, 'a'));
    await until({});
  });
});
