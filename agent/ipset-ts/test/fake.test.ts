import assert from 'node:assert/strict';
import { Ipset } from '../lib/index.ts';
import { entriesOf } from './case.ts';
import { CASES } from './cases.ts';
import { createFakeExec } from './fake/exec.ts';

describe('the fake', () => {
  for (const { title, run } of CASES) it(title, () => run(new Ipset(createFakeExec())));

  it('removes entries when their timeout ends', async () => {
    let now = 0;
    const ipset = new Ipset(createFakeExec({ now: () => now }));
    await ipset.restore([
      { op: 'create', set: { name: 'a', type: 'hash:ip', timeout: 10 } },
      { op: 'add', set: 'a', entry: '192.0.2.1' },
      { op: 'add', set: 'a', entry: '192.0.2.2', timeout: 0 },
    ]);
    now = 4000;
    assert.deepEqual(await entriesOf(ipset, 'a'), ['192.0.2.1 timeout 6', '192.0.2.2 timeout 0']);
    now = 10_000;
    assert.deepEqual(await entriesOf(ipset, 'a'), ['192.0.2.2 timeout 0']);
  });

  it('refuses commands and options that ipset does not know', async () => {
    const exec = createFakeExec();
    for (const args of [['bogus'], ['create', 'a', 'hash:net', 'netmask', '8'], ['add']]) {
      assert.equal((await exec(args)).code, 2, args.join(' '));
    }
    assert.equal((await exec(['create', 'a', 'hash:bogus'])).code, 1);
  });
});
