/**
 * A disk that is full, or can't be written, must not leave a node that just started without its
 * rules.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NODEWALL } from '../program.ts';
import { forEachDataplane, NFTABLES } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { NODE_NAME, policy, tcp } from './manifests.ts';

const DISKS = {
  'that is full': 'mount -t tmpfs -o size=4k none "$0" && printf %4096s >"$0/other"',
  'that is read-only': 'mount -t tmpfs -o ro none "$0"',
};

// Files are written alike in every dataplane.
forEachDataplane(
  'a state directory on a disk',
  (dataplane) => {
    let node: EnforcedNode;
    let stateDir: string;
    beforeEach(async () => {
      node = await createEnforcedNode(undefined, dataplane);
      stateDir = await mkdtemp(join(tmpdir(), 'nodewall-disk-'));
    });
    afterEach(async () => {
      await node?.close();
      await rm(stateDir, { recursive: true });
    });

    for (const [name, mount] of Object.entries(DISKS)) {
      it(`${name} is logged, and the rules are enforced`, async () => {
        await node.write('policy.json', [
          policy('p', {
            ingress: [{ name: 'close', action: 'Drop', ports: [tcp(9)] }],
            // Their addresses are saved, too.
            egress: [{ name: 'names', action: 'Allow', to: [{ fqdn: '*.a.test' }] }],
          }),
        ]);
        const agent = [NODEWALL, 'agent', '--once', '--manifests', node.manifests, '--node', NODE_NAME];
        const options = ['--state-dir', stateDir, ...(await node.configure({}))];
        // A mount namespace of its own: the disk ends with the agent.
        const script = `${mount} && "$@" && ls "$0"`;
        const argv = ['unshare', '--mount', 'sh', '-c', script, stateDir, ...agent, ...options];
        const { stdout, stderr } = await node.topology.node.run(argv);
        assert.match(await node.rules(), /dport 9\b/);
        assert.match(`${stdout}${stderr}`, /cannot write the state directory/);
        assert.doesNotMatch(stdout, /agent\.json/);
      });
    }

    it('with a file in the place of the folder of the CNI plugin is logged, and the rules are enforced', async () => {
      await node.write('policy.json', [
        policy('p', { ingress: [{ name: 'close', action: 'Drop', ports: [tcp(9)] }] }),
      ]);
      await writeFile(join(stateDir, 'cni'), '');
      const { stdout, stderr } = await node.topology.node.run([
        ...[NODEWALL, 'agent', '--once', '--manifests', node.manifests, '--node', NODE_NAME],
        ...['--state-dir', stateDir, ...(await node.configure({}))],
      ]);
      assert.match(await node.rules(), /dport 9\b/);
      assert.match(`${stdout}${stderr}`, /cannot let pods start without the agent/);
    });

    it('that is full does not prevent nodewall off', async () => {
      await node.write('policy.json', [
        policy('p', { ingress: [{ name: 'close', action: 'Drop', ports: [tcp(9)] }] }),
      ]);
      await node.once();
      const off = [NODEWALL, 'off', '--reason', 'no room for words', '--state-dir', stateDir];
      const script = `${DISKS['that is full']} && "$@" && test -e "$0/off"`;
      await node.topology.node.run(['unshare', '--mount', 'sh', '-c', script, stateDir, ...off]);
      assert.equal(await node.rules(), '');
    });

    it('that is read-only makes nodewall off change nothing, with advice', async () => {
      await node.write('policy.json', [
        policy('p', { ingress: [{ name: 'close', action: 'Drop', ports: [tcp(9)] }] }),
      ]);
      await node.once();
      const off = [NODEWALL, 'off', '--state-dir', stateDir];
      const script = `${DISKS['that is read-only']} && "$@"`;
      const argv = ['unshare', '--mount', 'sh', '-c', script, stateDir, ...off];
      const { status, stderr } = await node.topology.node.run(argv, { anyStatus: true });
      assert.equal(status, 3);
      assert.match(
        stderr,
        /read-only file system.*nothing has changed.*stop the agent, then run nodewall cleanup/s,
      );
      assert.match(await node.rules(), /dport 9\b/);
    });
  },
  [NFTABLES],
);
