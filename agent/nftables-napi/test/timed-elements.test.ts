import assert from 'node:assert/strict';
import { Netlink, NftError, TimedElements } from '../lib/index.ts';
import { inNamespace, nft } from './netns.ts';

const SET = { family: 'inet', table: 't', set: 's' } as const;
const KEY = { type: 7, length: 4 } as const;
const ADDRESSES = Uint8Array.of(192, 0, 2, 1, 192, 0, 2, 2);

inNamespace(import.meta.filename, () => {
  describe('elements with a timeout', () => {
    let netlink: Netlink;
    let timed: TimedElements;
    beforeEach(async () => {
      netlink = new Netlink();
      timed = new TimedElements();
      await netlink.batch([
        { op: 'addTable', family: 'inet', table: 't' },
        { op: 'addSet', ...SET, key: KEY, timeout: true },
      ]);
    });
    afterEach(async () => {
      await Promise.all([netlink.close(), timed.close()]);
      nft('flush', 'ruleset');
    });
    const add = (timeouts: readonly number[], keys = ADDRESSES) =>
      ({ op: 'add', ...SET, keyLength: 4, keys, timeouts }) as const;

    it('are added, each with its own, and read with what is left', async () => {
      assert.match(nft('list', 'set', 'inet', 't', 's'), /flags timeout/);
      const [set] = (await netlink.snapshot('inet', 't'))?.sets ?? [];
      assert.equal(set?.hasTimeout, true);
      await netlink.batch([add([60_000, 5_000])]);
      const found = (await timed.read(SET)) ?? assert.fail();
      const left = new Map(found.map(({ key, milliseconds }) => [key.join('.'), milliseconds]));
      assert.deepEqual([...left.keys()].sort(), ['192.0.2.1', '192.0.2.2']);
      for (const [address, most] of [
        ['192.0.2.1', 60_000],
        ['192.0.2.2', 5_000],
      ] as const) {
        const milliseconds = left.get(address) ?? assert.fail(address);
        assert.ok(milliseconds <= most && milliseconds > most - 4_000, `${address}: ${milliseconds}`);
      }
      nft('add', 'element', 'inet', 't', 's', '{ 192.0.2.3 }');
      const endless = (await timed.read(SET))?.find(({ key }) => key[3] === 3);
      assert.equal(endless?.milliseconds, Number.POSITIVE_INFINITY);
    });

    it('get another end by a deletion and an addition in one batch, which fails for one that ended', async () => {
      const [first, second] = [ADDRESSES.subarray(0, 4), ADDRESSES.subarray(4)];
      await netlink.batch([add([60_000], first), add([30], second)]);
      const renew = (keys: typeof ADDRESSES, timeout: number) =>
        [{ op: 'delete', ...SET, keyLength: 4, keys }, add([timeout], keys)] as const;
      await netlink.batch(renew(first, 2_000));
      const [element] = (await timed.read(SET))?.filter(({ key }) => key[3] === 1) ?? [];
      assert.ok((element?.milliseconds ?? Number.POSITIVE_INFINITY) <= 2_000);
      while ((await timed.read(SET))?.length === 2);
      await assert.rejects(netlink.batch([...renew(first, 60_000), ...renew(second, 60_000)]), (error) => {
        assert.ok(error instanceof NftError);
        assert.deepEqual([error.code, error.operation, error.all.length], ['ENOENT', 2, 1]);
        return true;
      });
      assert.ok(
        (await timed.read(SET))?.every(({ milliseconds }) => milliseconds <= 2_000),
        'changed nothing',
      );
    });

    it('are refused with a wrong number or a wrong value of timeouts', async () => {
      for (const timeouts of [[1], [1, 2, 3], [0, 1], [1.5, 1], [1, 2 ** 40]])
        await assert.rejects(netlink.batch([add(timeouts)]), RangeError);
      await assert.rejects(
        netlink.batch([{ ...add([1, 1]), verdicts: [{ kind: 'drop' }, { kind: 'drop' }] }]),
        TypeError,
      );
    });

    it('are null where there is no such set or table, and CLOSED after close', async () => {
      assert.equal(await timed.read({ ...SET, set: 'other' }), null);
      assert.equal(await timed.read({ ...SET, table: 'other' }), null);
      await timed.close();
      await assert.rejects(timed.read(SET), { code: 'CLOSED' });
    });
  });
});
