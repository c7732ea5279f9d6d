import assert from 'node:assert/strict';
import { type RestoreOperation, type SetDefinition, toOperations } from '../lib/index.ts';
import { type Case, entriesOf, refused } from './case.ts';

const nets: SetDefinition<'hash:net'> = { name: 'nets', type: 'hash:net' };
const ips: SetDefinition<'hash:ip'> = { name: 'ips', type: 'hash:ip' };
const list: SetDefinition<'list:set'> = { name: 'list', type: 'list:set' };

/** Many operations at once, and whole states. */
export const RESTORE_CASES: readonly Case[] = [
  {
    title: 'a refused line is named, and what ipset had collected is lost',
    types: ['hash:net', 'hash:ip'],
    async run(ipset) {
      await ipset.create(nets);
      await ipset.create(ips);
      const none = { ...nets, name: 'none' };
      const error = await refused(
        'NOT_FOUND',
        ipset.restore([
          { op: 'add', set: nets, entry: { net: '10.0.0.0/8' } },
          { op: 'add', set: ips, entry: { ip: '192.0.2.1' } },
          { op: 'add', set: none, entry: { net: '10.0.0.0/8' } },
        ]),
      );
      assert.deepEqual([error.line, error.operation, error.command], [3, 2, ['restore']]);
      assert.deepEqual(await entriesOf(ipset, 'nets'), [{ net: '10.0.0.0/8' }]);
      assert.deepEqual(await entriesOf(ipset, 'ips'), []);
    },
  },
  {
    title: 'exist holds for every line of a restore',
    types: ['hash:net'],
    async run(ipset) {
      const add: RestoreOperation = { op: 'add', set: nets, entry: { net: '10.0.0.0/8' } };
      const operations: RestoreOperation[] = [
        { op: 'create', set: nets },
        add,
        add,
        { op: 'destroy', name: 'none' },
        add,
      ];
      await ipset.restore(operations, { exist: true });
      assert.deepEqual(await entriesOf(ipset, 'nets'), [{ net: '10.0.0.0/8' }]);
      const error = await refused('EXISTS', ipset.restore(operations));
      assert.equal(error.operation, 0);
      await refused('ENTRY_EXISTS', ipset.restore([add]));
    },
  },
  {
    title: 'what was saved can be made again',
    types: ['hash:net', 'hash:ip,port', 'bitmap:port', 'list:set'],
    async run(ipset) {
      const services: SetDefinition<'hash:ip,port'> = {
        name: 'services',
        type: 'hash:ip,port',
        family: 'inet6',
      };
      const ports: SetDefinition<'bitmap:port'> = {
        name: 'ports',
        type: 'bitmap:port',
        range: '1-1024',
        comment: true,
      };
      const members: SetDefinition<'hash:net'> = { ...nets, initval: 7, hashsize: 64, comment: true };
      await ipset.restore([
        { op: 'create', set: list },
        { op: 'create', set: members },
        { op: 'create', set: services },
        { op: 'create', set: ports },
        { op: 'add', set: list, entry: { set: 'services' } },
        { op: 'add', set: list, entry: { set: 'nets' } },
        { op: 'add', set: members, entry: { net: '10.0.0.0/8', nomatch: true, comment: 'not these' } },
        { op: 'add', set: services, entry: { ip: '2001:DB8::0:1', port: 443 } },
        { op: 'add', set: services, entry: { ip: '2001:db8::1', port: 'icmpv6:echo-request' } },
        { op: 'add', set: ports, entry: { port: '80-82' } },
      ]);
      const before = await ipset.save();
      assert.equal(before.at(-1)?.type, 'list:set');
      const names = before.map(({ name }) => name).reverse();
      await ipset.restore(names.map((name): RestoreOperation => ({ op: 'destroy', name })));
      assert.deepEqual(await ipset.save(), []);
      await ipset.restore(toOperations(before));
      const sorted = (sets: typeof before) =>
        sets.map((set) => ({ ...set, entries: set.entries.map((entry) => JSON.stringify(entry)).sort() }));
      assert.deepEqual(sorted(await ipset.save()), sorted(before));
    },
  },
];
