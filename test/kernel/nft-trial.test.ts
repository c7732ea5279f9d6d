/** What `dataplane: auto` tries, in namespaces of its own and without. */
import assert from 'node:assert/strict';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { kernelSuite } from './kernel-suite.ts';

const MODULE = new URL('../../agent/apply/netlink/nft-trial.ts', import.meta.url);

kernelSuite('the trial of nftables', () => {
  let namespace: Namespace;
  before(async () => {
    namespace = await createNamespace('nfttrial');
  });
  after(() => namespace?.close());

  /** What each way says in a namespace where somebody has a table. */
  async function tryAll(...before: readonly string[]): Promise<unknown> {
    const script = `
      const { TRIAL_WAYS } = await import(${JSON.stringify(MODULE.href)});
      const trials = [];
      for (const way of TRIAL_WAYS) trials.push(await way());
      process.stdout.write(JSON.stringify(trials));`;
    const { stdout } = await namespace.run([
      ...before,
      process.execPath,
      '--input-type=module',
      '-e',
      script,
    ]);
    return JSON.parse(stdout);
  }

  it('succeeds in each way here, and leaves nothing behind', async () => {
    await namespace.run(['nft', 'add', 'table', 'inet', 'theirs']);
    assert.deepEqual(await tryAll(), [{ works: true }, { works: true }, { works: true }]);
    const { stdout } = await namespace.run(['nft', 'list', 'tables']);
    assert.equal(stdout, 'table inet theirs\n');
  });

  it('succeeds with what egress gateways need', async () => {
    const script = `
      const { tryEgress } = await import(${JSON.stringify(MODULE.href)});
      process.stdout.write(JSON.stringify(await tryEgress()));`;
    const { stdout } = await namespace.run([process.execPath, '--input-type=module', '-e', script]);
    assert.equal(stdout, '{"works":true}');
  });

  it('runs in a namespace or not at all, and fails without permission', async () => {
    // Root without capabilities: the namespace is that of a user, and nothing can be tried here.
    const trials = tryAll('setpriv', '--bounding-set=-all', '--inh-caps=-all');
    await assert.rejects(trials, /Operation not permitted/);
  });
});
