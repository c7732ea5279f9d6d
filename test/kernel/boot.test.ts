/**
 * What is in force after a reboot, before any agent runs: the commands of the units in an empty
 * kernel.
 */
import assert from 'node:assert/strict';
import { appendFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bootUnits } from '../../agent/boot/boot-unit.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { policy, tcp } from './manifests.ts';

forEachDataplane(
  'boot',
  ({ name, iptables, ...dataplane }) => {
    const unit = iptables === null ? 'nodewall-boot.service' : 'nodewall-boot-iptables.service';
    let node: EnforcedNode;
    before(async () => {
      node = await createEnforcedNode(undefined, { name, iptables, ...dataplane });
      await node.write('policy.json', [
        policy('closed', {
          ingress: [
            { name: 'ssh', action: 'Allow', ports: [tcp(22)] },
            { name: 'rest', action: 'Drop' },
          ],
        }),
      ]);
      await node.again();
    });
    after(() => node?.close());
    const current = () => join(node.stateDir, 'boot', 'current');

    /** Runs the unit's commands as systemd would: the first that fails ends them, but for a `-`. */
    async function boot(): Promise<boolean> {
      const text = bootUnits(node.stateDir).get(unit) ?? '';
      const commands = [...text.matchAll(/^ExecStart=(-?)(.*)$/gm)];
      assert.ok(commands.length >= 3);
      for (const [, mayFail, command = ''] of commands) {
        const argv = command.replace(/\b(ip6?tables)-restore/, `$1-${iptables}-restore`).split(' ');
        const { status } = await node.topology.node.run(argv, { cwd: current(), anyStatus: true });
        if (status !== 0 && mayFail === '') return false;
      }
      return true;
    }

    it('has the same rules, which the agent then leaves as they are', async () => {
      const before = await node.rules();
      assert.match(before, /closed/);
      await node.lose();
      assert.equal(await boot(), true);
      assert.equal(await node.rules(), before);
      if (iptables !== null) return;
      const listing = async () =>
        (await node.topology.node.run(['nft', '-a', 'list', 'table', 'inet', 'nodewall'])).stdout;
      const booted = await listing();
      await rm(join(node.stateDir, 'digests.json'), { force: true });
      await node.again();
      assert.equal(await listing(), booted, 'with handles: no rule is made again');
    });

    it('has the minimal rules, or none with iptables, if a file is damaged', async () => {
      await node.lose();
      await appendFile(join(current(), iptables === null ? 'rules.nft' : 'rules.v4'), '\n');
      assert.equal(await boot(), false);
      const rules = await node.rules();
      if (iptables === null) assert.match(rules, /boot-minimal\/close/);
      else assert.equal(rules, '');
    });

    it('keeps the rules in force if it is started again and a file is damaged', async () => {
      await node.again();
      const before = await node.rules();
      assert.match(before, /closed/);
      await appendFile(join(current(), iptables === null ? 'rules.nft' : 'rules.v4'), '\n');
      assert.equal(await boot(), false);
      assert.equal(await node.rules(), before);
    });

    it('has what the configuration says then', async () => {
      if (iptables !== null) return;
      await node.again(...(await node.configure({ boot: { ssh: ['192.0.2.0/24'] } })));
      await node.lose();
      await writeFile(join(current(), 'rules.nft'), '');
      assert.equal(await boot(), false);
      assert.match(await node.rules(), /tcp dport 22 ip saddr 192.0.2.0\/24/);
      await node.again(...(await node.configure({ boot: { onError: 'open' } })));
      await node.lose();
      await writeFile(join(current(), 'rules.nft'), '');
      assert.equal(await boot(), false);
      assert.equal(await node.rules(), '');
    });

    it('loads nothing once nothing is enforced', async () => {
      const policies = ['boot.enabled', 'cleanup'] as const;
      for (const how of policies) {
        await node.again(...(await node.configure({})));
        assert.ok((await readdir(current())).length > 0);
        if (how === 'cleanup') await node.cleanup();
        else await node.again(...(await node.configure({ boot: { enabled: false } })));
        await assert.rejects(readdir(current()), { code: 'ENOENT' }, how);
      }
    });
  },
  EITHER_IPTABLES,
);
