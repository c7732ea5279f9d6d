import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadKubeConfig } from './kube-config.ts';

describe('loadKubeConfig', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-kubeconfig-'));
  });
  after(() => rm(folder, { recursive: true }));

  const FILE = {
    clusters: [{ name: 'c', cluster: { server: 'https://192.0.2.1:6443' } }],
    users: [{ name: 'u', user: { token: 't' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };

  async function load(content: string): Promise<string | undefined> {
    const file = join(folder, 'config');
    await writeFile(file, content);
    return (await loadKubeConfig(file)).getCurrentCluster()?.server;
  }

  it('uses the current context of the file', async () => {
    assert.equal(await load(JSON.stringify(FILE)), 'https://192.0.2.1:6443');
  });

  it('reports the error in the kubeconfig', async () => {
    await assert.rejects(
      loadKubeConfig(join(folder, 'none')),
      /--kubeconfig: .*none: can't be read: there is no such file/,
    );
    await assert.rejects(load(JSON.stringify({ ...FILE, 'current-context': 'y' })), /"y" names no context/);
    await assert.rejects(load(''), /--kubeconfig: .*config: /);
    await assert.rejects(load('a: ['), /--kubeconfig: .*config: /);
    await assert.rejects(loadKubeConfig(undefined), /no cluster is known: neither --kubeconfig/);
  });
});
