import assert from 'node:assert/strict';
import { Ipset } from '../lib/index.ts';
import { entriesOf, refused } from './case.ts';
import { CASES } from './cases.ts';
import { createFakeExec } from './fake/exec.ts';

describe('the fake', () => {
  for (const { title, run } of CASES) it(title, () => run(new Ipset(createFakeExec())));

  it('rejects the types that its kernel lacks', async () => {
    const ipset = new Ipset(createFakeExec({ types: ['hash:ip'] }));
    await ipset.create({ name: 'a', type: 'hash:ip' });
    await refused('NO_KERNEL_SUPPORT', ipset.create({ name: 'b', type: 'hash:net' }));
  });

  it('removes entries when their timeout ends', async () => {
    let now = 0;
    const ipset = new Ipset(createFakeExec({ now: () => now }));
    const set = { name: 'a', type: 'hash:ip', timeout: 10 } as const;
    await ipset.create(set);
    await ipset.add(set, { ip: '192.0.2.1' });
    await ipset.add(set, { ip: '192.0.2.2', timeout: 0 });
    now = 4000;
    assert.deepEqual(await entriesOf(ipset, 'a'), [
      { ip: '192.0.2.1', timeout: 6 },
      { ip: '192.0.2.2', timeout: 0 },
    ]);
    now = 10_000;
    assert.deepEqual(await entriesOf(ipset, 'a'), [{ ip: '192.0.2.2', timeout: 0 }]);
  });

  it('refuses commands and options that ipset does not know', async () => {
    const exec = createFakeExec();
    for (const args of [['bogus'], ['create', 'a', 'hash:net', 'netmask', '8'], ['add']]) {
      assert.equal((await exec(args)).code, 2, args.join(' '));
    }
    assert.equal((await exec(['create', 'a', 'hash:bogus'])).code, 1);
  });
});
