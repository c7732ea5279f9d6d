import assert from 'node:assert/strict';
import { writeOff } from '../../agent/run/off-file.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import { NODEWALL } from '../program.ts';
import { run } from './command.ts';
import { createFolder, type Folder } from './folder.ts';

/** What a guard saved that tries one policy, and holds another. */
const MEMORY = {
  trial: { changes: [{ key: 'nodewall.io/web', digest: 'b', before: 'a', generation: 2 }], attempt: 1 },
  holds: [
    {
      key: 'nodewall.io/cut',
      digest: 'd',
      before: 'c',
      generation: 3,
      sets: [],
      isBrief: false,
      since: '2026-01-07T12:00:00.000Z',
      why: { kind: 'unconfirmed' },
    },
  ],
  rollbacks: {},
};

describe('nodewall undo without a cluster', function () {
  this.timeout(60_000);
  let folder: Folder;
  beforeEach(async () => {
    folder = await createFolder();
  });
  afterEach(() => folder.close());

  /** Where there is no kubeconfig. */
  const undo = (...args: readonly string[]) =>
    run([NODEWALL, 'undo', '--state-dir', folder.stateDir, ...args], {
      env: { HOME: folder.path, KUBECONFIG: '' },
    });

  it('says that no agent has run here', async () => {
    const { status, stderr } = await undo();
    assert.equal(status, 1);
    assert.match(
      stderr,
      /no agent has run here with the state directory .*: give its --state-dir, or for a cluster --kubeconfig/,
    );
  });

  it('names what is tried, what was taken back, and the files that lead back', async () => {
    await stateFile(folder.stateDir, 'guard.json').write(JSON.stringify(MEMORY));
    const origin = JSON.stringify([folder.manifests]);
    await stateFile(folder.stateDir, 'manifests.json').write(JSON.stringify({ origin, memory: null }));
    const { status, stdout, stderr } = await undo();
    assert.deepEqual([status, stderr], [0, '']);
    assert.match(stdout, /^nodewall\.io\/web: its change is tried; it takes itself back, unless /m);
    assert.match(
      stdout,
      /^nodewall\.io\/cut: was taken back at 2026-01-07T12:00:00\.000Z \(rolled back: not confirmed by hand/m,
    );
    assert.ok(
      stdout.includes(
        `Go back: restore ${folder.manifests}; the agent, which does not run, applies it when it starts.\n`,
      ),
      stdout,
    );
    assert.match(stdout, /^All rules off, at once: nodewall off\.$/m);
    const { tried, held, manifests } = JSON.parse((await undo('-o', 'json')).stdout);
    assert.deepEqual(
      [tried, held[0].policy, manifests],
      [['nodewall.io/web'], 'nodewall.io/cut', [folder.manifests]],
    );
  });

  it('refuses a policy, with the way that there is', async () => {
    await stateFile(folder.stateDir, 'guard.json').write(
      JSON.stringify({ ...MEMORY, trial: null, holds: [] }),
    );
    await writeOff(folder.stateDir, { reason: '', since: '2026-01-07T12:00:00Z', by: 'root' });
    const { status, stdout, stderr } = await undo('web');
    assert.deepEqual([status, stdout], [1, '']);
    assert.match(
      stderr,
      /^nodewall: web: earlier versions are not kept on this machine; for a cluster give --kubeconfig$/m,
    );
    assert.match(
      stderr,
      /^nodewall is off on this machine: no rule of it is in force, until nodewall on\.$/m,
    );
    assert.match(stderr, /^The agent follows a controller: undo in the cluster, with --kubeconfig\.$/m);
  });

  it('says what it cannot read, and that rollouts are of clusters', async () => {
    await stateFile(folder.stateDir, 'guard.json').write('{');
    const damaged = await undo();
    assert.equal(damaged.status, 3);
    assert.equal((await undo('--group', 'web')).status, 2);
    assert.equal((await undo('web', '--group', 'web')).status, 2);
  });
});
