import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kubeletServer } from './control-plane-places.ts';

const KUBECONFIG = `apiVersion: v1
kind: Config
current-context: b
clusters:
- {name: one, cluster: {server: "https://10.0.0.1:6443"}}
- {name: two, cluster: {server: "https://api.example.com:6443"}}
contexts:
- {name: a, context: {cluster: one, user: u}}
- {name: b, context: {cluster: two, user: u}}
users: [{name: u, user: {}}]
`;

describe("the server of the kubelet's kubeconfig", () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nodewall-kubelet-'));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  async function read(text: string): Promise<string | undefined> {
    const path = join(directory, 'kubelet.conf');
    writeFileSync(path, text);
    return (await kubeletServer(path))?.host;
  }

  it('is that of the current context, or of the only cluster', async () => {
    assert.equal(await read(KUBECONFIG), 'api.example.com:6443');
    assert.equal(await read(KUBECONFIG.replace('context: b', 'context: a')), '10.0.0.1:6443');
    assert.equal(
      await read('clusters: [{name: c, cluster: {server: "https://[2001:db8::1]"}}]'),
      '[2001:db8::1]',
    );
  });

  it('is an error where a configured file is missing or something else', async () => {
    await assert.rejects(kubeletServer(join(directory, 'none')), /none: cannot be read/);
    for (const text of [
      '',
      '- a',
      'a: {',
      KUBECONFIG.replace('context: b', 'context: c'),
      'clusters: [null]',
      'x'.repeat(2 ** 21),
    ])
      await assert.rejects(read(text), /kubelet.conf: (is not a kubeconfig|cannot be read)/);
  });
});
