/** The executable of the kubectl plugin, where no Node.js is installed, at a real API server. */

import assert from 'node:assert/strict';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parse, stringify } from 'yaml';
import { bundlePlugin } from '../../../build/plugin/bundle.ts';
import { makeExecutable } from '../../../build/plugin/executable.ts';
import { PLATFORMS } from '../../../build/plugin/platforms.ts';
import { output } from '../../../build/programs/command.ts';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { askedCluster } from '../labs.ts';
import { closed, type Story } from '../story-bed.ts';

const ARCH = process.arch === 'x64' ? 'amd64' : process.arch;

/** An exec credential plugin (client.authentication.k8s.io/v1), as clouds have them. */
const CREDENTIALS = (token: string): string => `#!/bin/sh
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"${token}"}}'
`;

kernelSuite('the executable of the kubectl plugin, without Node.js', () => {
  const bed = askedCluster.use();
  let story: Story;
  let root: string;

  before(async function () {
    this.timeout(1_800_000);
    ({ story } = bed());
    await bed().renewed();
    root = await mkdtemp(join(tmpdir(), 'nodewall-plugin-root-'));
    const platform = PLATFORMS.find(({ os, arch }) => os === 'linux' && arch === ARCH);
    assert.ok(platform);
    await makeExecutable(platform, (await bundlePlugin()).code, join(root, 'kubectl-nodewall'));
    for (const program of [join(root, 'kubectl-nodewall'), '/bin/sh']) await copyLibraries(program, root);
    await mkdir(join(root, 'bin'), { recursive: true });
    await copyFile('/bin/sh', join(root, 'bin/sh'));

    const { cluster } = story;
    const token = await cluster.token('default/jane');
    const file = parse(await readFile(bed().kubeconfigs.jane, 'utf8'));
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: '/bin/credentials' };
    file.users[0].user = { exec: { ...exec, interactiveMode: 'Never' } };
    await writeFile(join(root, 'kubeconfig'), stringify(file));
    await writeFile(join(root, 'bin/credentials'), CREDENTIALS(token));
    await chmod(join(root, 'bin/credentials'), 0o755);
  });
  after(() => rm(root, { recursive: true, force: true }));

  async function plugin(...args: readonly string[]) {
    const command = ['/usr/sbin/chroot', root, '/kubectl-nodewall', ...args];
    return await story.controlPlane.run(['env', '-i', 'KUBECONFIG=/kubeconfig', ...command], {
      anyStatus: true,
    });
  }

  it('asks a cluster with the credentials of an exec plugin', async () => {
    const status = await plugin('status');
    assert.deepEqual([status.status, status.stderr], [0, '']);
    assert.match(status.stdout, /^nodes {7}3 Enforced$/m);
    const rules = await plugin('rules', '--node', 'worker-1', '-o', 'json');
    assert.equal(rules.status, 0, rules.stderr);
    assert.equal(JSON.parse(rules.stdout).rules[0].policy, 'web');
  });

  it('explains, and shows flows and counters', async () => {
    const flow = { direction: 'ingress', src: '203.0.113.9', protocol: 'tcp', dstPort: 80 };
    const explained = await plugin('explain', '--node', 'worker-2', '--flow', JSON.stringify(flow));
    assert.match(explained.stdout, /^Drop: rule web\/close/m);
    for (const command of [
      ['top', '--all-nodes', '--interval', '1'],
      ['flows', '--all-nodes'],
      ['changes', '--since', '1h'],
    ]) {
      const { status, stderr } = await plugin(...command);
      assert.deepEqual([status, stderr], [0, ''], command.join(' '));
    }
  });

  it('checks manifests, as text of nft and of iptables too', async () => {
    await writeFile(
      join(root, 'policy.yaml'),
      `${stringify(closed('a', 81))}---\n${stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n', labels: { role: 'worker' } }, status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] } })}`,
    );
    for (const form of ['nft', 'iptables', 'table']) {
      const { status, stdout, stderr } = await plugin(
        'compile',
        '--manifests',
        '/policy.yaml',
        '--node',
        'n',
        '-o',
        form,
      );
      assert.equal(status, 0, stderr);
      assert.match(stdout, /81/);
    }
    assert.equal((await plugin('validate', '--manifests', '/policy.yaml')).status, 0);
  });

  it('says what it cannot do, and where that is done', async () => {
    const { status, stderr } = await plugin('flush');
    assert.equal(status, 3);
    assert.match(stderr, /not in this program: run it on the node/);
    assert.match((await plugin('--help')).stdout, /^Usage: kubectl nodewall /);
  });

  it('says why there are no credentials', async () => {
    await rm(join(root, 'bin/credentials'));
    const { status, stderr } = await plugin('status');
    assert.equal(status, 3);
    assert.match(stderr, /cannot get the kubeconfig's credentials: /);
  });
});

/** What the loader opens for a program, at the same paths. */
async function copyLibraries(program: string, root: string): Promise<void> {
  const listed = await output(['ldd', program]);
  for (const [, path = ''] of listed.matchAll(/(\/\S+) \(0x/g)) {
    const copy = join(root, path);
    await mkdir(dirname(copy), { recursive: true });
    await copyFile(path, copy);
  }
}
