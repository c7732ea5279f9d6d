import assert from 'node:assert/strict';
import type { RestoreOperation, SetDefinition } from '../lib/index.ts';
import { type Case, entriesOf, refused } from './case.ts';

const nets: SetDefinition<'hash:net'> = { name: 'nets', type: 'hash:net' };
const ips: SetDefinition<'hash:ip'> = { name: 'ips', type: 'hash:ip' };

/** Entries, what they carry, and what is found. */
export const ENTRY_CASES: readonly Case[] = [
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
          ['192.0.2.2', '192.0.2.3'].map(
            (ip): RestoreOperation => ({ op: 'add', set, entry: { ip, comment } }),
          ),
        );
        assert.deepEqual(
          (await entriesOf(ipset, 'ips')).map((entry) => (entry as { comment: string }).comment),
          [comment, comment, comment],
        );
      }
    },
  },
];
