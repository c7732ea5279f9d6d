/**
 * The behaviour of ipset in one table, run against the fake (fake.test.ts) and against the kernel.
 */
import assert from 'node:assert/strict';
import type { RestoreOperation, SetDefinition } from '../lib/index.ts';
import { type Case, entriesOf, refused } from './case.ts';

const NETS: SetDefinition = { name: 'nets', type: 'hash:net' };
const IPS: SetDefinition = { name: 'ips', type: 'hash:ip' };

const create = (set: SetDefinition): [RestoreOperation] => [{ op: 'create', set }];
const add = (set: string, ...entries: readonly string[]): RestoreOperation[] =>
  entries.map((entry) => ({ op: 'add', set, entry }));
const del = (set: string, entry: string): [RestoreOperation] => [{ op: 'del', set, entry }];
const destroy = (name: string): [RestoreOperation] => [{ op: 'destroy', name }];
const swap = (from: string, to: string): [RestoreOperation] => [{ op: 'swap', from, to }];
const EXIST = { exist: true };

export const CASES: readonly Case[] = [
  {
    title: 'a set is created once, and destroyed once',
    async run(ipset) {
      await ipset.restore(create(NETS));
      await refused('EXISTS', ipset.restore(create(NETS)));
      assert.deepEqual(await ipset.names(), ['nets']);
      await ipset.restore(destroy('nets'));
      await refused('NOT_FOUND', ipset.restore(destroy('nets')));
      await ipset.restore(destroy('nets'), EXIST);
      assert.deepEqual(await ipset.names(), []);
    },
  },
  {
    title: 'exist passes over an equal set, not over another',
    async run(ipset) {
      const timed = { ...NETS, timeout: 0 };
      await ipset.restore(create(timed));
      await ipset.restore(create({ ...timed, hashsize: 64 }), EXIST);
      await refused('EXISTS', ipset.restore(create(NETS), EXIST));
      await refused('EXISTS', ipset.restore(create({ ...timed, maxelem: 5 }), EXIST));
      await refused('EXISTS', ipset.restore(create({ ...IPS, name: 'nets' }), EXIST));
      // The kernel does not look at the family.
      await ipset.restore(create({ ...timed, family: 'inet6' }), EXIST);
      assert.deepEqual(await ipset.save('nets'), [
        { name: 'nets', type: 'hash:net', family: 'inet', maxelem: 65_536, timeout: 0, entries: [] },
      ]);
    },
  },
  {
    title: 'maxelem is a limit',
    async run(ipset) {
      await ipset.restore(create({ ...IPS, maxelem: 2 }));
      const three = add('ips', '192.0.2.1', '192.0.2.2', '192.0.2.3');
      assert.equal((await refused('FULL', ipset.restore(three))).operation, 2);
      assert.equal((await entriesOf(ipset, 'ips')).length, 2);
      await ipset.restore(add('ips', '192.0.2.1'), EXIST);
      await refused('FULL', ipset.restore(add('ips', '192.0.2.3'), EXIST));
    },
  },
  {
    title: 'swap exchanges sets of one type and family, with their options',
    async run(ipset) {
      await ipset.restore([
        ...create(NETS),
        ...create({ ...NETS, name: 'other', maxelem: 7, timeout: 9 }),
        ...create(IPS),
        ...create({ ...NETS, name: 'six', family: 'inet6' }),
        { op: 'add', set: 'other', entry: '10.0.0.0/8', timeout: 0 },
        ...swap('nets', 'other'),
      ]);
      const [now] = await ipset.save('nets');
      assert.deepEqual([now?.maxelem, now?.timeout, now?.entries], [7, 9, ['10.0.0.0/8 timeout 0']]);
      assert.deepEqual(await entriesOf(ipset, 'other'), []);
      await refused('TYPE_MISMATCH', ipset.restore(swap('nets', 'ips')));
      await refused('TYPE_MISMATCH', ipset.restore(swap('nets', 'six')));
      await refused('NOT_FOUND', ipset.restore(swap('nets', 'none')));
      await refused('NOT_FOUND', ipset.restore(swap('none', 'nets')));
    },
  },
  {
    title: 'an entry is added once and deleted once, unless exist passes over it',
    async run(ipset) {
      await ipset.restore(create(NETS));
      await ipset.restore(add('nets', '10.0.0.9/8'));
      await refused('ENTRY_EXISTS', ipset.restore(add('nets', '10.0.0.0/8')));
      await ipset.restore(add('nets', '10.0.0.0/8'), EXIST);
      assert.deepEqual(await entriesOf(ipset, 'nets'), ['10.0.0.0/8']);
      await ipset.restore(del('nets', '10.0.0.0/8'));
      await refused('NO_ENTRY', ipset.restore(del('nets', '10.0.0.0/8')));
      await ipset.restore(del('nets', '10.0.0.0/8'), EXIST);
      await refused('NOT_FOUND', ipset.restore(add('none', '10.0.0.0/8')));
      await refused('NOT_FOUND', ipset.restore([{ op: 'flush', name: 'none' }]));
      await ipset.restore(add('nets', '10.0.0.0/8', '192.0.2.0/24'));
      await ipset.restore([{ op: 'flush', name: 'nets' }]);
      assert.deepEqual(await entriesOf(ipset, 'nets'), []);
    },
  },
  {
    title: 'a hash cannot hold what is null',
    async run(ipset) {
      await ipset.restore([...create(NETS), ...create(IPS)]);
      await refused('OUT_OF_RANGE', ipset.restore(add('nets', '0.0.0.0/0')));
      await refused('OUT_OF_RANGE', ipset.restore(add('ips', '0.0.0.0')));
      await ipset.restore(add('nets', '0.0.0.0/1', '128.0.0.0/1'));
      assert.deepEqual(await entriesOf(ipset, 'nets'), ['0.0.0.0/1', '128.0.0.0/1']);
    },
  },
  {
    title: 'entries have a timeout only if their set was created for it',
    async run(ipset) {
      const entry = '192.0.2.1';
      await ipset.restore([...create(IPS), ...create({ ...IPS, name: 'timed', timeout: 0 })]);
      await refused('NOT_ENABLED', ipset.restore([{ op: 'add', set: 'ips', entry, timeout: 5 }]));
      await ipset.restore(add('timed', entry));
      assert.deepEqual(await entriesOf(ipset, 'timed'), ['192.0.2.1 timeout 0']);
      await ipset.restore([{ op: 'add', set: 'timed', entry, timeout: 5_000 }], EXIST);
      assert.match((await entriesOf(ipset, 'timed')).join(), /^192\.0\.2\.1 timeout (5000|4999)$/);
    },
  },
  {
    title: 'services are addresses with a port, and exceptions stand behind networks',
    async run(ipset) {
      const services: SetDefinition = { name: 'services', type: 'hash:ip,port', family: 'inet6' };
      await ipset.restore([
        ...create(services),
        ...create(NETS),
        ...add('services', '2001:DB8::0:1,tcp:443', '2001:db8::2,udp:53', '2001:db8::2,sctp:7'),
        ...add('nets', '10.0.0.0/8', '10.1.0.0/16 nomatch'),
      ]);
      assert.deepEqual(await entriesOf(ipset, 'services'), [
        '2001:db8::1,tcp:443',
        '2001:db8::2,sctp:7',
        '2001:db8::2,udp:53',
      ]);
      assert.deepEqual(await entriesOf(ipset, 'nets'), ['10.0.0.0/8', '10.1.0.0/16 nomatch']);
      await refused('SYNTAX', ipset.restore(add('services', '2001:db8::1')));
      await refused('SYNTAX', ipset.restore(add('services', '2001:db8::1,tcp:70000')));
      await refused('SYNTAX', ipset.restore(add('services', '192.0.2.1,tcp:80')));
    },
  },
  {
    title: 'a refused line is named, and what ipset had collected is lost',
    async run(ipset) {
      await ipset.restore([...create(NETS), ...create(IPS)]);
      const error = await refused(
        'NOT_FOUND',
        ipset.restore([
          ...add('nets', '10.0.0.0/8'),
          ...add('ips', '192.0.2.1'),
          ...add('none', '10.0.0.0/8'),
        ]),
      );
      assert.equal(error.operation, 2);
      assert.deepEqual(await entriesOf(ipset, 'nets'), ['10.0.0.0/8']);
      assert.deepEqual(await entriesOf(ipset, 'ips'), []);
    },
  },
  {
    title: 'exist holds for every line of a restore',
    async run(ipset) {
      const one = add('nets', '10.0.0.0/8');
      const operations = [...create(NETS), ...one, ...one, ...destroy('none'), ...one];
      await ipset.restore(operations, EXIST);
      assert.deepEqual(await entriesOf(ipset, 'nets'), ['10.0.0.0/8']);
      assert.equal((await refused('EXISTS', ipset.restore(operations))).operation, 0);
      await refused('ENTRY_EXISTS', ipset.restore(one));
    },
  },
];
