/**
 * What ipset does, as this library shows it: one table, run against the fake (fake.test.ts) and against the kernel. Each case starts
 * without sets.
 */
import assert from 'node:assert/strict';
import {
  type Ipset,
  IpsetError,
  type IpsetErrorCode,
  type Operation,
  type SetDefinition,
  type SetType,
  toOperations,
} from '../lib/index.ts';

export interface Case {
  readonly title: string;
  /** The types it cannot do without; kernels differ in what they support. */
  readonly types: readonly SetType[];
  readonly run: (ipset: Ipset) => Promise<void>;
}

const nets: SetDefinition<'hash:net'> = { name: 'nets', type: 'hash:net' };
const ips: SetDefinition<'hash:ip'> = { name: 'ips', type: 'hash:ip' };
const list: SetDefinition<'list:set'> = { name: 'list', type: 'list:set' };

/** Rejects with an IpsetError of this code. */
export async function refused(code: IpsetErrorCode, promise: Promise<unknown>): Promise<IpsetError> {
  const [result] = await Promise.allSettled([promise]);
  if (result.status === 'fulfilled') assert.fail(`not refused with ${code}`);
  assert.ok(result.reason instanceof IpsetError, String(result.reason));
  assert.equal(result.reason.code, code, result.reason.stack ?? '');
  return result.reason;
}

/** The entries of a set without what is the same in all, in an order. */
export async function entriesOf(ipset: Ipset, name: string): Promise<unknown[]> {
  const [set] = await ipset.save(name);
  const key = (entry: unknown) => Object.values(entry ?? {}).join();
  return [...(set?.entries ?? [])].sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

export const CASES: readonly Case[] = [
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
    title: 'an entry is added once and deleted once, unless exist passes over it',
    types: ['hash:net'],
    async run(ipset) {
      await ipset.create(nets);
      await ipset.add(nets, { net: '10.0.0.9/8' });
      await refused('ENTRY_EXISTS', ipset.add(nets, { net: '10.0.0.0/8' }));
      await ipset.add(nets, { net: '10.0.0.0/8' }, { exist: true });
      assert.deepEqual(await entriesOf(ipset, 'nets'), [{ net: '10.0.0.0/8' }]);
      await ipset.del(nets, { net: '10.0.0.0/8' });
      await refused('NO_ENTRY', ipset.del(nets, { net: '10.0.0.0/8' }));
      await ipset.del(nets, { net: '10.0.0.0/8' }, { exist: true });
      await refused('NOT_FOUND', ipset.add({ ...nets, name: 'none' }, { net: '10.0.0.0/8' }));
      await refused('NOT_FOUND', ipset.flush('none'));
    },
  },
  {
    title: 'a test is yes, no or an error',
    types: ['hash:net'],
    async run(ipset) {
      await ipset.create(nets);
      await ipset.restore([
        { op: 'add', set: nets, entry: { net: '10.0.0.0/8' } },
        { op: 'add', set: nets, entry: { net: '10.1.0.0/16', nomatch: true } },
      ]);
      assert.equal(await ipset.test(nets, { net: '10.9.9.9' }), true);
      assert.equal(await ipset.test(nets, { net: '10.0.0.0/8' }), true);
      assert.equal(await ipset.test(nets, { net: '10.0.0.0/9' }), false);
      assert.equal(await ipset.test(nets, { net: '10.1.9.9' }), false);
      assert.equal(await ipset.test(nets, { net: '10.1.0.0/16', nomatch: true }), true);
      assert.equal(await ipset.test(nets, { net: '192.0.2.1' }), false);
      await refused('NOT_FOUND', ipset.test({ ...nets, name: 'none' }, { net: '192.0.2.1' }));
      await refused('SYNTAX', ipset.test(nets, { net: '::1' }));
    },
  },
  {
    title: 'a range of addresses is as many entries, and of networks those that cover it',
    types: ['hash:ip', 'hash:net'],
    async run(ipset) {
      await ipset.create(ips);
      await ipset.create(nets);
      await ipset.add(ips, { ip: '192.0.2.4-192.0.2.6' });
      await ipset.add(ips, { ip: '192.0.2.8/31' });
      await ipset.add(nets, { net: '192.0.2.0-192.0.2.9' });
      const found = await entriesOf(ipset, 'ips');
      assert.deepEqual(
        found,
        ['4', '5', '6', '8', '9'].map((last) => ({ ip: `192.0.2.${last}` })),
      );
      assert.deepEqual(await entriesOf(ipset, 'nets'), [{ net: '192.0.2.0/29' }, { net: '192.0.2.8/31' }]);
      await refused('OUT_OF_RANGE', ipset.add(nets, { net: '0.0.0.0/0' }));
      await refused('OUT_OF_RANGE', ipset.add(ips, { ip: '0.0.0.0' }));
    },
  },
  {
    title: 'maxelem is a limit',
    types: ['hash:ip'],
    async run(ipset) {
      const set: SetDefinition<'hash:ip'> = { ...ips, maxelem: 2 };
      await ipset.create(set);
      const three = ['192.0.2.1', '192.0.2.2', '192.0.2.3'];
      const operations = three.map((ip): Operation => ({ op: 'add', set, entry: { ip } }));
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
          entry: { net: '10.0.0.0/8', comment: 'a "plain" one'.replaceAll('"', "'") },
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
    title: 'entries carry only what their set was created for',
    types: ['hash:ip'],
    async run(ipset) {
      await ipset.create(ips);
      const ip = '192.0.2.1';
      await refused('NOT_ENABLED', ipset.add(ips, { ip, timeout: 5 }));
      await refused('NOT_ENABLED', ipset.add(ips, { ip, packets: 5n }));
      await refused('NOT_ENABLED', ipset.add(ips, { ip, comment: 'x' }));
      await refused('NOT_ENABLED', ipset.add(ips, { ip, skbmark: '0x1' }));
      const all: SetDefinition<'hash:ip'> = {
        ...ips,
        name: 'all',
        timeout: 0,
        counters: true,
        comment: true,
        skbinfo: true,
      };
      const entry = {
        ip,
        timeout: 0,
        packets: 2n ** 64n - 2n,
        bytes: 7n,
        comment: ' timeout  5 \\ # ü',
        skbmark: '0x10/0xff',
        skbprio: '1:a',
        skbqueue: 3,
      } as const;
      await ipset.restore([
        { op: 'create', set: all },
        { op: 'add', set: all, entry },
        { op: 'add', set: all, entry: { ip: '192.0.2.2', comment: 'back\\slash\\' } },
      ]);
      const plain = { timeout: 0, packets: 0n, bytes: 0n };
      const wanted = [entry, { ip: '192.0.2.2', ...plain, comment: 'back\\slash\\' }];
      assert.deepEqual(await entriesOf(ipset, 'all'), wanted);
      await ipset.add(all, { ip, comment: 'new' }, { exist: true });
      const counted = { packets: entry.packets, bytes: entry.bytes };
      assert.deepEqual(await entriesOf(ipset, 'all'), [
        { ip, timeout: 0, ...counted, comment: 'new' },
        wanted[1],
      ]);
    },
  },
  {
    title: 'a comment is the same by arguments and by restore',
    types: ['hash:ip'],
    async run(ipset) {
      const set: SetDefinition<'hash:ip'> = { ...ips, comment: true };
      await ipset.create(set);
      const comments = ['-x y', 'comment', 'a\tb', "it's", 'x'.repeat(255), 'ü'.repeat(127)];
      for (const comment of comments) {
        await ipset.flush('ips');
        await ipset.add(set, { ip: '192.0.2.1', comment });
        await ipset.restore(
          ['192.0.2.2', '192.0.2.3'].map((ip): Operation => ({ op: 'add', set, entry: { ip, comment } })),
        );
        assert.deepEqual(
          (await entriesOf(ipset, 'ips')).map((entry) => (entry as { comment: string }).comment),
          [comment, comment, comment],
        );
      }
    },
  },
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
      const add: Operation = { op: 'add', set: nets, entry: { net: '10.0.0.0/8' } };
      const operations: Operation[] = [
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
      await ipset.restore(names.map((name): Operation => ({ op: 'destroy', name })));
      assert.deepEqual(await ipset.save(), []);
      await ipset.restore(toOperations(before));
      const sorted = (sets: typeof before) =>
        sets.map((set) => ({ ...set, entries: set.entries.map((entry) => JSON.stringify(entry)).sort() }));
      assert.deepEqual(sorted(await ipset.save()), sorted(before));
    },
  },
  {
    title: 'the entries of each type come back in the spelling of ipset',
    types: [
      'hash:ip',
      'hash:net',
      'hash:ip,port',
      'hash:net,port',
      'hash:ip,port,ip',
      'hash:ip,port,net',
      'hash:net,iface',
    ],
    async run(ipset) {
      const ipPort = { name: 'a', type: 'hash:ip,port' } as const;
      const netPort = { name: 'b', type: 'hash:net,port' } as const;
      const ipPortIp = { name: 'c', type: 'hash:ip,port,ip' } as const;
      const ipPortNet = { name: 'd', type: 'hash:ip,port,net' } as const;
      const netIface = { name: 'e', type: 'hash:net,iface' } as const;
      for (const set of [ipPort, netPort, ipPortIp, ipPortNet, netIface]) await ipset.create(set);
      await ipset.restore([
        { op: 'add', set: ipPort, entry: { ip: '192.0.2.1', port: 80 } },
        { op: 'add', set: ipPort, entry: { ip: '192.0.2.1', port: 'icmp:8/0' } },
        { op: 'add', set: ipPort, entry: { ip: '192.0.2.1', port: '47:0' } },
        { op: 'add', set: netPort, entry: { net: '192.0.2.1/24', port: 'udp:53-54' } },
        { op: 'add', set: ipPortIp, entry: { ip: '192.0.2.1', port: 'sctp:7', ip2: '192.0.2.2' } },
        {
          op: 'add',
          set: ipPortNet,
          entry: { ip: '192.0.2.1', port: 'tcp:1', net: '10.9.9.9/8', nomatch: true },
        },
        { op: 'add', set: netIface, entry: { net: '0.0.0.0/0', iface: 'eth', wildcard: true } },
        { op: 'add', set: netIface, entry: { net: '192.0.2.0/24', iface: 'eth0', physdev: true } },
      ]);
      const found = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((name) => entriesOf(ipset, name)));
      assert.deepEqual(found, [
        [
          { ip: '192.0.2.1', port: 'gre:0' },
          { ip: '192.0.2.1', port: 'icmp:echo-request' },
          { ip: '192.0.2.1', port: 'tcp:80' },
        ],
        [
          { net: '192.0.2.0/24', port: 'udp:53' },
          { net: '192.0.2.0/24', port: 'udp:54' },
        ],
        [{ ip: '192.0.2.1', port: 'sctp:7', ip2: '192.0.2.2' }],
        [{ ip: '192.0.2.1', port: 'tcp:1', net: '10.0.0.0/8', nomatch: true }],
        [
          { net: '0.0.0.0/0', iface: 'eth', wildcard: true },
          { net: '192.0.2.0/24', iface: 'eth0', physdev: true },
        ],
      ]);
      await refused('SYNTAX', ipset.add(ipPort, { ip: '192.0.2.1', port: 'gre:5' }));
      await refused('SYNTAX', ipset.add(ipPort, { ip: '192.0.2.1', port: 'icmpv6:1/0' }));
      await refused('SYNTAX', ipset.add(ipPort, { ip: '192.0.2.1', port: 'tcp:70000' }));
    },
  },
  {
    title: 'a mask falls on what is added and what is asked for',
    types: ['hash:ip', 'hash:ip,port', 'bitmap:ip'],
    async run(ipset) {
      const masked = { name: 'ips', type: 'hash:ip', netmask: 24 } as const;
      const odd = { name: 'odd', type: 'hash:ip', bitmask: '255.255.0.255' } as const;
      const bits = { name: 'bits', type: 'bitmap:ip', range: '192.0.2.0/24', netmask: 28 } as const;
      for (const set of [masked, odd, bits]) await ipset.create(set);
      await ipset.add(masked, { ip: '192.0.2.77' });
      await ipset.add(odd, { ip: '192.0.2.77' });
      await ipset.add(bits, { ip: '192.0.2.77' });
      assert.deepEqual(await entriesOf(ipset, 'ips'), [{ ip: '192.0.2.0' }]);
      assert.deepEqual(await entriesOf(ipset, 'odd'), [{ ip: '192.0.0.77' }]);
      assert.deepEqual(await entriesOf(ipset, 'bits'), [{ ip: '192.0.2.64' }]);
      assert.equal(await ipset.test(masked, { ip: '192.0.2.5' }), true);
      assert.equal(await ipset.test(odd, { ip: '192.0.9.77' }), true);
      await refused('OUT_OF_RANGE', ipset.add(bits, { ip: '192.0.3.1' }));
    },
  },
  {
    title: 'a bitmap of addresses and MAC addresses learns the latter',
    types: ['bitmap:ip,mac'],
    async run(ipset) {
      const set = { name: 'hosts', type: 'bitmap:ip,mac', range: '192.0.2.0-192.0.2.9' } as const;
      await ipset.create(set);
      await ipset.add(set, { ip: '192.0.2.1' });
      await ipset.add(set, { ip: '192.0.2.1', mac: '02:00:00:00:00:ab' });
      assert.deepEqual(await entriesOf(ipset, 'hosts'), [{ ip: '192.0.2.1', mac: '02:00:00:00:00:AB' }]);
      await refused('OUT_OF_RANGE', ipset.add(set, { ip: '192.0.2.10' }));
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
  {
    title: 'hash:mac',
    types: ['hash:mac'],
    async run(ipset) {
      const set = { name: 'a', type: 'hash:mac' } as const;
      await ipset.create(set);
      await ipset.add(set, { mac: '02:00:00:00:00:ab' });
      assert.deepEqual(await entriesOf(ipset, 'a'), [{ mac: '02:00:00:00:00:AB' }]);
    },
  },
  {
    title: 'hash:ip,mac',
    types: ['hash:ip,mac'],
    async run(ipset) {
      const set = { name: 'a', type: 'hash:ip,mac' } as const;
      await ipset.create(set);
      await ipset.add(set, { ip: '192.0.2.1', mac: '02:00:00:00:00:ab' });
      assert.deepEqual(await entriesOf(ipset, 'a'), [{ ip: '192.0.2.1', mac: '02:00:00:00:00:AB' }]);
      assert.equal(await ipset.test(set, { ip: '192.0.2.1', mac: '02:00:00:00:00:AC' }), false);
    },
  },
  {
    title: 'hash:net,net',
    types: ['hash:net,net'],
    async run(ipset) {
      const set = { name: 'a', type: 'hash:net,net' } as const;
      await ipset.create(set);
      await ipset.add(set, { net: '10.0.0.0/8', net2: '192.0.2.0/24' });
      assert.equal(await ipset.test(set, { net: '10.1.1.1', net2: '192.0.2.9' }), true);
      assert.equal(await ipset.test(set, { net: '192.0.2.9', net2: '10.1.1.1' }), false);
    },
  },
  {
    title: 'hash:ip,mark',
    types: ['hash:ip,mark'],
    async run(ipset) {
      const set = { name: 'a', type: 'hash:ip,mark' } as const;
      await ipset.create(set);
      await ipset.add(set, { ip: '192.0.2.1', mark: 0x63 });
      assert.deepEqual(await entriesOf(ipset, 'a'), [{ ip: '192.0.2.1', mark: 0x63 }]);
    },
  },
  {
    title: 'hash:net,port,net',
    types: ['hash:net,port,net'],
    async run(ipset) {
      const set = { name: 'a', type: 'hash:net,port,net' } as const;
      await ipset.create(set);
      await ipset.add(set, { net: '10.0.0.0/8', port: 'tcp:80-81', net2: '192.0.2.0/24' });
      assert.deepEqual(await entriesOf(ipset, 'a'), [
        { net: '10.0.0.0/8', port: 'tcp:80', net2: '192.0.2.0/24' },
        { net: '10.0.0.0/8', port: 'tcp:81', net2: '192.0.2.0/24' },
      ]);
    },
  },
];
