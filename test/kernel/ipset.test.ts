import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createExec, Ipset } from 'ipset-ts';
import { createFakeExec } from 'ipset-ts/fake';
import { refused } from '../../agent/ipset-ts/test/case.ts';
import { CASES } from '../../agent/ipset-ts/test/cases.ts';
import { examples, printed, RUN_EXAMPLE, WORKSPACE } from '../../agent/ipset-ts/test/readme.ts';
import { outcomes, sequences } from '../../agent/ipset-ts/test/sequences.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { kernelSuite } from './kernel-suite.ts';
import { areVariationsWanted } from './variations.ts';

kernelSuite('ipset-ts on this kernel', () => {
  let namespace: Namespace;
  let ipset: Ipset;

  beforeEach(async () => {
    namespace = await createNamespace('ipset');
    ipset = within(namespace);
  });

  afterEach(() => namespace.close());

  for (const { title, run } of CASES) it(title, () => run(ipset));

  it('reports a set that a rule uses as in use; it can still be swapped', async () => {
    await ipset.restore([
      { op: 'create', set: { name: 'used', type: 'hash:net' } },
      { op: 'create', set: { name: 'next', type: 'hash:net' } },
    ]);
    await namespace.run([
      'iptables',
      '-A',
      'INPUT',
      '-m',
      'set',
      '--match-set',
      'used',
      'src',
      '-j',
      'ACCEPT',
    ]);
    await refused('IN_USE', ipset.restore([{ op: 'destroy', name: 'used' }]));
    await ipset.restore([
      { op: 'swap', from: 'used', to: 'next' },
      { op: 'destroy', name: 'next' },
    ]);
    assert.deepEqual(await ipset.names(), ['used']);
  });

  it('grows a hash up to maxelem', async () => {
    await ipset.restore([
      { op: 'create', set: { name: 'a', type: 'hash:ip', hashsize: 64, maxelem: 1024 } },
      { op: 'add', set: 'a', entry: '10.0.0.0/22' },
    ]);
    const [saved] = await ipset.save('a');
    assert.equal(saved?.entries.length, 1024);
    const { stdout } = await namespace.run(['ipset', 'list', '-terse', 'a']);
    assert.ok(Number(/hashsize (\d+)/.exec(stdout)?.[1]) > 64, stdout);
    await refused('FULL', ipset.restore([{ op: 'add', set: 'a', entry: '10.0.4.0' }]));
  });

  it('reads foreign sets: other types, names with blanks, comments of several lines', async () => {
    await namespace.run(['ipset', 'create', 'a b', 'hash:ip', 'comment']);
    await namespace.run(['ipset', 'add', 'a b', '192.0.2.1', 'comment', 'one\ntwo']);
    await namespace.run(['ipset', 'create', 'ports', 'bitmap:port', 'range', '1-9']);
    await namespace.run(['ipset', 'add', 'ports', '7']);
    const sets = await ipset.save();
    assert.deepEqual(sets.map(({ name, type, entries }) => [name, type, entries.length]).sort(), [
      ['a', 'b', 1],
      ['ports', 'bitmap:port', 1],
    ]);
  });

  it('behaves as the fake for any operations', async () => {
    await fc.assert(
      fc.asyncProperty(sequences, async (steps) => {
        await namespace.run(['ipset', 'destroy']);
        const wanted = await outcomes(new Ipset(createFakeExec()), steps);
        assert.deepEqual(await outcomes(ipset, steps), wanted);
      }),
      { numRuns: areVariationsWanted() ? 100 : 10 },
    );
  });

  it('runs the example of README.md', async () => {
    const [code = ''] = examples();
    const { stdout } = await namespace.run(RUN_EXAMPLE, { stdin: code, cwd: WORKSPACE });
    assert.deepEqual(stdout.trim().split('\n'), printed(code));
    assert.deepEqual(await ipset.names(), []);
  });

  it('needs the permission to change the kernel', async () => {
    const command = namespace.command(['setpriv', '--reuid', '65534', '--clear-groups', 'ipset']);
    const [file = '', ...rest] = command;
    await refused('NOT_PERMITTED', new Ipset(createExec({ command: [file, ...rest] })).names());
  });
});

function within(namespace: Namespace): Ipset {
  const [file = '', ...rest] = namespace.command(['ipset']);
  return new Ipset(createExec({ command: [file, ...rest] }));
}
