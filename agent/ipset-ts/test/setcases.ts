import assert from 'node:assert/strict';
import type { RestoreOperation, SetDefinition } from '../lib/index.ts';
import { type Case, entriesOf, refused } from './case.ts';

const nets: SetDefinition<'hash:net'> = { name: 'nets', type: 'hash:net' };
const ips: SetDefinition<'hash:ip'> = { name: 'ips', type: 'hash:ip' };
const list: SetDefinition<'list:set'> = { name: 'list', type: 'list:set' };

/** Sets as a whole: made, swapped, renamed, in use. */
export const SET_CASES: readonly Case[] = [
  {
    title: 'a set is created once, and destroyed once',
    types: ['hash:net'],
    async run(ipset) {
      await ipset.create(nets);
      await refused('EXISTS', ipset.create(nets));
      assert.deepEqual(await ipset.names(), ['nets']);
      await ipset.destroy('nets');
      const error = await refused('NOT_FOUND', ipset.destroy('nets'));
      assert.deepEqual([error.command, error.exitCode], [['destroy', 'nets'], 1]);
      await ipset.destroy('nets', { exist: true });
      assert.deepEqual(await ipset.names(), []);
    },
  },
  {
    title: 'exist passes over an equal set, not over another',
    types: ['hash:net', 'hash:ip'],
    async run(ipset) {
      await ipset.create({ ...nets, timeout: 0, comment: true });
      await ipset.create({ ...nets, timeout: 0, comment: true, hashsize: 64 }, { exist: true });
      await refused('EXISTS', ipset.create(nets, { exist: true }));
      await refused(
        'EXISTS',
        ipset.create({ ...nets, timeout: 0, comment: true, maxelem: 5 }, { exist: true }),
      );
      await refused('EXISTS', ipset.create({ ...ips, name: 'nets' }, { exist: true }));
      // The kernel does not look at the family.
      await ipset.create({ ...nets, timeout: 0, comment: true, family: 'inet6' }, { exist: true });
      const [set] = await ipset.save('nets');
      assert.ok(set?.type === 'hash:net' && set.family === 'inet');
    },
  },
  {
    title: 'maxelem is a limit',
    types: ['hash:ip'],
    async run(ipset) {
      const set: SetDefinition<'hash:ip'> = { ...ips, maxelem: 2 };
      await ipset.create(set);
      const three = ['192.0.2.1', '192.0.2.2', '192.0.2.3'];
      const operations = three.map((ip): RestoreOperation => ({ op: 'add', set, entry: { ip } }));
      const error = await refused('FULL', ipset.restore(operations));
      assert.deepEqual([error.line, error.operation, error.exitCode], [3, 2, 1]);
      assert.equal((await entriesOf(ipset, 'ips')).length, 2);
      await ipset.add(set, { ip: '192.0.2.1' }, { exist: true });
      await refused('FULL', ipset.add(set, { ip: '192.0.2.3' }, { exist: true }));
    },
  },
  {
    title: 'swap exchanges sets of one type and family, with their options',
    types: ['hash:net', 'hash:ip'],
    async run(ipset) {
      const other: SetDefinition<'hash:net'> = { ...nets, name: 'other', comment: true, maxelem: 7 };
      await ipset.restore([
        { op: 'create', set: nets },
        { op: 'create', set: other },
        { op: 'create', set: ips },
        { op: 'create', set: { ...nets, name: 'six', family: 'inet6' } },
        {
          op: 'add',
          set: other,
          entry: { net: '10.0.0.0/8', comment: "a 'plain' one" },
        },
        { op: 'swap', from: 'nets', to: 'other' },
      ]);
      const [now] = await ipset.save('nets');
      assert.ok(now?.type === 'hash:net');
      assert.deepEqual([now.maxelem, now.entries], [7, [{ net: '10.0.0.0/8', comment: "a 'plain' one" }]]);
      assert.deepEqual(await entriesOf(ipset, 'other'), []);
      await refused('TYPE_MISMATCH', ipset.swap('nets', 'ips'));
      await refused('TYPE_MISMATCH', ipset.swap('nets', 'six'));
      await refused('NOT_FOUND', ipset.swap('nets', 'none'));
      await refused('NOT_FOUND', ipset.swap('none', 'nets'));
    },
  },
  {
    title: 'rename takes a free name',
    types: ['hash:net', 'hash:ip'],
    async run(ipset) {
      await ipset.create(nets);
      await ipset.create(ips);
      await refused('EXISTS', ipset.rename('nets', 'ips'));
      await refused('NOT_FOUND', ipset.rename('none', 'new'));
      await ipset.rename('nets', 'new');
      assert.deepEqual((await ipset.names()).sort(), ['ips', 'new']);
    },
  },
  {
    title: 'a set that a list holds can be swapped and flushed, but neither destroyed nor renamed',
    types: ['hash:net', 'list:set'],
    async run(ipset) {
      await ipset.create(nets);
      await ipset.create({ ...nets, name: 'other' });
      await ipset.create(list);
      await ipset.add(list, { set: 'nets' });
      await refused('IN_USE', ipset.destroy('nets'));
      await refused('IN_USE', ipset.rename('nets', 'new'));
      await ipset.swap('nets', 'other');
      await ipset.flush('nets');
      const [status] = await ipset.list('nets', { terse: true });
      assert.equal(status?.references, 1);
      assert.deepEqual(await entriesOf(ipset, 'list'), [{ set: 'nets' }]);
      await ipset.del(list, { set: 'nets' });
      await ipset.destroy('nets');
    },
  },
  {
    title: 'a list has an order, and holds sets that are no lists',
    types: ['hash:net', 'hash:ip', 'list:set'],
    async run(ipset) {
      for (const set of [nets, ips, { ...ips, name: 'more' }, list] as const) await ipset.create(set);
      await ipset.add(list, { set: 'nets' });
      await ipset.add(list, { set: 'ips', before: 'nets' });
      await ipset.add(list, { set: 'more', after: 'ips' });
      const [saved] = await ipset.save('list');
      assert.deepEqual(saved?.entries, [{ set: 'ips' }, { set: 'more' }, { set: 'nets' }]);
      assert.equal(await ipset.test(list, { set: 'ips', before: 'more' }), true);
      assert.equal(await ipset.test(list, { set: 'nets', before: 'ips' }), false);
      await refused('ENTRY_EXISTS', ipset.add(list, { set: 'ips' }));
      // It stays where it is.
      await ipset.add(list, { set: 'ips', after: 'nets' }, { exist: true });
      assert.deepEqual(await ipset.save('list'), [saved]);
      await refused('NOT_FOUND', ipset.add(list, { set: 'none' }));
      await refused('TYPE_MISMATCH', ipset.add(list, { set: 'list' }));
      await refused('NO_ENTRY', ipset.del(list, { set: 'more', after: 'nets' }));
      await ipset.del(list, { set: 'more' });
      await refused('NO_ENTRY', ipset.del(list, { set: 'more' }));
    },
  },
  {
    title: 'the kernel corrects sizes',
    types: ['hash:ip', 'bitmap:port', 'list:set', 'bitmap:ip'],
    async run(ipset) {
      await ipset.create({ ...ips, hashsize: 100, bucketsize: 3, initval: 5 });
      await ipset.create({ ...ips, name: 'large', bucketsize: 14 });
      await ipset.create({ name: 'ports', type: 'bitmap:port', range: '90-80' });
      await ipset.create({ ...list, size: 1 });
      const [small, large, ports, lists] = await ipset.list(undefined, { terse: true });
      assert.ok(small?.type === 'hash:ip' && large?.type === 'hash:ip');
      assert.ok(ports?.type === 'bitmap:port' && lists?.type === 'list:set');
      assert.deepEqual([small.hashsize, small.bucketsize, small.initval, small.maxelem], [128, 4, 5, 65_536]);
      assert.deepEqual([large.bucketsize, ports.range, lists.size], [12, '80-90', 4]);
      await refused('OUT_OF_RANGE', ipset.create({ name: 'wide', type: 'bitmap:ip', range: '10.0.0.0/8' }));
    },
  },
];
