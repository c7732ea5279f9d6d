import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createExec, Ipset, IpsetError, type SetType, toSaveText } from 'ipset-ts';
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
  /** Types that this kernel has not, by trial. */
  const missing = new Set<SetType>();

  before(async () => {
    const trial = await createNamespace('ipset-types');
    for (const type of new Set(CASES.flatMap(({ types }) => types))) {
      if (!(await hasType(within(trial), type))) missing.add(type);
    }
    await trial.close();
  });

  beforeEach(async () => {
    namespace = await createNamespace('ipset');
    ipset = within(namespace);
  });

  afterEach(() => namespace.close());

  for (const { title, types, run } of CASES) {
    it(title, async () => {
      const lacking = types.filter((type) => missing.has(type));
      // A kernel without a type says so, and then there is nothing more to see.
      for (const type of lacking) await refused('NO_KERNEL_SUPPORT', create(ipset, type));
      if (lacking.length === 0) await run(ipset);
    });
  }

  it('reports a set that a rule uses as in use; it can still be swapped', async () => {
    await ipset.create({ name: 'used', type: 'hash:net' });
    await ipset.create({ name: 'next', type: 'hash:net' });
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
    await refused('IN_USE', ipset.destroy('used'));
    await refused('IN_USE', ipset.rename('used', 'other'));
    await ipset.swap('used', 'next');
    await ipset.destroy('next');
    const [status] = await ipset.list('used');
    assert.equal(status?.references, 1);
  });

  it('grows a hash up to maxelem', async () => {
    const set = { name: 'a', type: 'hash:ip', hashsize: 64, maxelem: 1024 } as const;
    await ipset.create(set);
    await ipset.add(set, { ip: '10.0.0.0/22' });
    const [status] = await ipset.list('a', { terse: true });
    assert.ok(status?.type === 'hash:ip' && (status.hashsize ?? 0) > 64, String(status));
    assert.equal(status.entryCount, 1024);
    await refused('FULL', ipset.add(set, { ip: '10.0.4.0' }));
  });

  it('writes sets as ipset saves them, to the byte', async () => {
    const set = {
      name: 'a',
      type: 'hash:net,iface',
      timeout: 0,
      counters: true,
      comment: true,
      skbinfo: true,
    } as const;
    const full = { packets: 1n, bytes: 2n, skbmark: '0x1/0xff', skbprio: '1:2', skbqueue: 3 } as const;
    await ipset.create(set);
    await ipset.create({ name: 'b', type: 'hash:ip,port', netmask: 24 });
    await ipset.create({ name: 'c', type: 'hash:ip', bitmask: '255.0.255.0', family: 'inet' });
    await ipset.create({ name: 'd', type: 'bitmap:ip', range: '10.0.0.0/24', netmask: 28, timeout: 3 });
    await ipset.add(set, {
      net: '10.0.0.0/8',
      iface: 'eth',
      wildcard: true,
      nomatch: true,
      comment: 'a  b',
      ...full,
    });
    const { stdout } = await namespace.run(['ipset', 'save']);
    assert.equal(toSaveText(await ipset.save()), stdout);
  });

  it('reads foreign sets: names with blanks, comments of several lines', async () => {
    await namespace.run(['ipset', 'create', 'a b', 'hash:ip', 'comment']);
    await namespace.run(['ipset', 'add', 'a b', '192.0.2.1', 'comment', 'one\ntwo']);
    for (const [read] of [await ipset.save(), await ipset.list()]) {
      assert.deepEqual([read?.name, read?.entries], ['a b', [{ ip: '192.0.2.1', comment: 'one\ntwo' }]]);
    }
  });

  it('behaves as the fake for any operations', async () => {
    await fc.assert(
      fc.asyncProperty(sequences, async (steps) => {
        for (const name of (await ipset.names()).reverse()) await ipset.flush(name);
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

async function hasType(ipset: Ipset, type: SetType): Promise<boolean> {
  try {
    await create(ipset, type);
    return true;
  } catch (error) {
    if (error instanceof IpsetError && error.code === 'NO_KERNEL_SUPPORT') return false;
    throw error;
  }
}

function create(ipset: Ipset, type: SetType): Promise<void> {
  const name = type.replaceAll(/[:,]/g, '-');
  switch (type) {
    case 'bitmap:ip':
    case 'bitmap:ip,mac':
      return ipset.create({ name, type, range: '10.0.0.0/24' });
    case 'bitmap:port':
      return ipset.create({ name, type, range: '0-1' });
    default:
      return ipset.create({ name, type });
  }
}
