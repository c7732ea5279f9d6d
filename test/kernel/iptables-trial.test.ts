/** The trial of iptables in the kernel, before `auto` chooses it, and for `nodewall check`. */

import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { iptablesTools } from '../../agent/apply/iptables/tools.ts';
import { tryVariant } from '../../agent/dataplane/iptables/commands.ts';
import { createFolder, NODE } from '../cli/folder.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { kernelSuite } from './kernel-suite.ts';
import { policy } from './manifests.ts';

/** As a kernel without base chains of nf_tables answers. */
const REFUSES = `#!/bin/sh
[ "$1" = --version ] && { echo 'iptables v1.8.9 (nf_tables)'; exit 0; }
case "$0" in *save) exit 0;; esac
cat > /dev/null
echo 'line 12: CHAIN_ADD failed (Operation not supported): chain INPUT' >&2; exit 4
`;

kernelSuite('the trial of iptables', function () {
  this.timeout(60_000);
  let namespace: Namespace;
  beforeEach(async () => {
    namespace = await createNamespace('trial');
  });
  afterEach(() => namespace.close());

  const before = () => ['nsenter', `--net=/proc/${namespace.pid}/ns/net`, '--'];

  for (const variant of ['nft', 'legacy'] as const) {
    it(`works with ${variant}, and leaves no set, chain or jump`, async () => {
      const tools = iptablesTools(variant, { before: before() });
      assert.deepEqual(await tryVariant(tools), new Map());
      assert.deepEqual(await tryVariant(tools), new Map());
      const saved = `${await tools.save(4)}${await tools.save(6)}`;
      assert.doesNotMatch(saved, /NODEWALL|-A INPUT/);
      assert.match(saved, /:INPUT ACCEPT/);
    });
  }

  it('a family that the kernel lacks is not tried', async () => {
    const kernelHas = (family: 4 | 6) => family === 4;
    const tools = iptablesTools('nft', { before: before(), kernelHas });
    assert.deepEqual(await tryVariant(tools), new Map());
    assert.equal(await tools.save(6), '');
    await assert.rejects(tools.restore(6, '*filter\nCOMMIT\n'), { code: 'NO_FAMILY' });
  });

  it('makes `variant: auto` take legacy where the kernel refuses the other, in `check` too', async () => {
    const bin = await mkdtemp(join(tmpdir(), 'nodewall-bin-'));
    const folder = await createFolder();
    try {
      for (const name of ['iptables', 'ip6tables', 'iptables-nft', 'ip6tables-nft']) {
        for (const verb of ['', '-save', '-restore']) {
          await writeFile(join(bin, `${name}${verb}`), REFUSES);
          await chmod(join(bin, `${name}${verb}`), 0o755);
        }
      }
      const deny = policy('deny', { ingress: [{ name: 'all', action: 'Drop', ports: [{ port: 80 }] }] });
      await folder.write('a.json', [NODE, deny]);
      const config = await folder.writeBeside('c.yaml', "dataplane: iptables\ninterfaceGroupFile: ''\n");
      const nft = await folder.writeBeside(
        'n.yaml',
        "dataplane: iptables\niptables: {variant: nft}\ninterfaceGroupFile: ''\n",
      );
      const run = (...args: readonly string[]) =>
        namespace.run(
          ['env', `PATH=${bin}:${process.env.PATH}`, NODEWALL, ...args, '--state-dir', folder.stateDir],
          { anyStatus: true },
        );
      const agent = ['agent', '--once', '--node', 'cp-1', '--manifests', folder.manifests];
      const broken = await run(...agent, '--config', nft);
      assert.equal(broken.status, 3);
      assert.equal((await namespace.run(['ipset', 'list', '-name'])).stdout, '');
      const { status, stderr } = await run(...agent, '--config', config);
      assert.equal(status, 0, stderr);
      assert.match(stderr, /"variant":"legacy"/);
      assert.match((await namespace.run(['iptables-legacy-save'])).stdout, /--dport 80 .*-j DROP/);
      const check = async (file: string) => (await run('check', '--machine', '--config', file)).stdout;
      assert.match(await check(config), /ok +dataplane +iptables: .*a set, a chain and a jump work/);
      assert.match(
        await check(nft),
        /problem +dataplane +iptables does not work here: nft: .*CHAIN_ADD failed/,
      );
    } finally {
      await Promise.all([folder.close(), rm(bin, { recursive: true })]);
    }
  });
});
