import assert from 'node:assert/strict';
import { type ExecOptions, Ipset, type RestoreOperation } from '../lib/index.ts';
import { createFakeExec } from './fake/exec.ts';

/** An Ipset on the fake, and every process that it would have started. */
function recorded(): { ipset: Ipset; calls: [readonly string[], ExecOptions['stdin']][] } {
  const fake = createFakeExec();
  const calls: [readonly string[], ExecOptions['stdin']][] = [];
  const exec = (args: readonly string[], options?: ExecOptions) => {
    calls.push([args, options?.stdin]);
    return fake(args, options);
  };
  return { ipset: new Ipset(exec), calls };
}

const create: RestoreOperation = { op: 'create', set: { name: 'a', type: 'hash:ip', timeout: 5 } };

describe('Ipset', () => {
  it('passes long input to a restore in parts, in order', async () => {
    const { ipset, calls } = recorded();
    const adds = Array.from(
      { length: 2500 },
      (_, i): RestoreOperation => ({ op: 'add', set: 'a', entry: `10.0.${i >> 8}.${i & 255}` }),
    );
    await ipset.restore([create, ...adds]);
    const [[args, stdin] = []] = calls;
    assert.deepEqual(args, ['restore']);
    assert.ok(typeof stdin === 'object', 'in parts');
    const [saved] = await ipset.save('a');
    assert.equal(saved?.entries.length, 2500);
    const wrong: RestoreOperation = { op: 'add', set: 'a', entry: 'nothing' };
    await assert.rejects(ipset.restore([...adds, wrong], { exist: true }), { operation: 2500 });
  });

  it('makes one call for one operation, one restore for several, and none for none', async () => {
    const { ipset, calls } = recorded();
    const add: RestoreOperation = { op: 'add', set: 'a', entry: '192.0.2.1', timeout: 7 };
    await ipset.restore([]);
    await ipset.restore([create]);
    await ipset.restore([create, add], { exist: true });
    await ipset.restore([create], { exist: true, plain: false });
    assert.deepEqual(calls, [
      [['create', 'a', 'hash:ip', 'timeout', '5'], undefined],
      [['-exist', 'restore'], 'create a hash:ip timeout 5\nadd a 192.0.2.1 timeout 7\n'],
      [['-exist', 'restore'], 'create a hash:ip timeout 5\n'],
    ]);
  });
});
