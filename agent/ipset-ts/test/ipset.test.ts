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

const set = { name: 'a', type: 'hash:ip', comment: true } as const;

describe('Ipset', () => {
  it('passes long input to a restore in parts, in order', async () => {
    const { ipset, calls } = recorded();
    const plain = { name: 'many', type: 'hash:ip' } as const;
    const adds = Array.from(
      { length: 2500 },
      (_, i): RestoreOperation => ({
        op: 'add',
        set: plain,
        entry: { ip: `10.0.${i >> 8}.${i & 255}` },
      }),
    );
    await ipset.restore([{ op: 'create', set: plain }, ...adds]);
    const [[args, stdin] = []] = calls;
    assert.deepEqual(args, ['restore']);
    assert.ok(typeof stdin === 'object', 'in parts');
    const [saved] = await ipset.save('many');
    assert.equal(saved?.entries.length, 2500);
    const wrong: RestoreOperation = { op: 'add', set: plain, entry: { ip: 'nothing' } };
    await assert.rejects(ipset.restore([...adds, wrong], { exist: true }), { operation: 2500, line: 2501 });
  });

  it('makes one call for one operation, one restore for several, and none for none', async () => {
    const { ipset, calls } = recorded();
    const create: RestoreOperation = { op: 'create', set };
    const add: RestoreOperation = { op: 'add', set, entry: { ip: '192.0.2.1', comment: 'a b' } };
    await ipset.restore([]);
    await ipset.restore([create]);
    await ipset.restore([create, add], { exist: true });
    await ipset.restore([create], { exist: true, plain: false });
    assert.deepEqual(calls, [
      [['create', 'a', 'hash:ip', 'comment'], undefined],
      [['-exist', 'restore'], 'create a hash:ip comment\nadd a 192.0.2.1 comment "a b"\n'],
      [['-exist', 'restore'], 'create a hash:ip comment\n'],
    ]);
  });

  it('passes a comment unquoted among arguments', async () => {
    const { ipset, calls } = recorded();
    await ipset.create(set);
    await ipset.add(set, { ip: '192.0.2.1', comment: 'a b' });
    assert.deepEqual(calls[1], [['add', 'a', '192.0.2.1', 'comment', 'a b'], undefined]);
  });

  it('starts no process for input that it rejects', async () => {
    const { ipset, calls } = recorded();
    await assert.rejects(ipset.create({ ...set, name: 'a b' }), { code: 'SYNTAX', command: null });
    await assert.rejects(ipset.save('-exist'), { code: 'SYNTAX' });
    await assert.rejects(ipset.test(set, { ip: 'localhost' }), { code: 'SYNTAX' });
    assert.deepEqual(calls, []);
  });

  it('lists with and without entries', async () => {
    const { ipset } = recorded();
    await ipset.create(set);
    await ipset.create({ name: 'b', type: 'hash:net' });
    await ipset.add(set, { ip: '192.0.2.1', comment: 'a b' });
    const [full, empty] = await ipset.list();
    const [terse] = await ipset.list('a', { terse: true });
    assert.ok(full?.type === 'hash:ip');
    assert.deepEqual(
      [full.entries, full.comment, full.entryCount],
      [[{ ip: '192.0.2.1', comment: 'a b' }], true, 1],
    );
    assert.deepEqual([empty?.name, empty?.entries], ['b', []]);
    assert.deepEqual([terse?.entries, terse?.entryCount, terse?.references], [[], 1, 0]);
  });
});
