import assert from 'node:assert/strict';
import { Netlink, NftError, type SetOperation } from '../lib/index.ts';
import { inNamespace, isLinux, nft } from './netns.ts';

/** Sets say which element was refused since Linux 5.19, by an extended acknowledgement. */
const NAMES_ELEMENTS = isLinux(5, 19);
const set = { family: 'inet', table: 't', set: 's', keyLength: 4 } as const;

inNamespace(import.meta.filename, () => {
  describe('Netlink.batch', () => {
    let netlink: Netlink;
    beforeEach(() => {
      netlink = new Netlink();
      nft(
        'add table inet t; add set inet t s { type ipv4_addr; }; add set inet t i { type ipv4_addr; flags interval; }',
      );
    });
    afterEach(async () => {
      await netlink.close();
      nft('flush', 'ruleset');
    });

    it('is one commit', async () => {
      const { generation, microseconds } = await netlink.batch([
        { op: 'add', ...set, keys: Uint8Array.of(10, 0, 0, 1) },
        { op: 'add', ...set, set: 'i', ranges: Uint8Array.of(10, 0, 0, 1, 10, 0, 0, 9) },
      ]);
      assert.equal(generation.after, generation.before + 1);
      assert.ok(microseconds.kernel > 0);
    });

    it('applies nothing of a failed batch, and names the operation', async () => {
      const batch: SetOperation[] = [
        { op: 'add', ...set, keys: Uint8Array.of(10, 0, 0, 1) },
        { op: 'delete', ...set, keys: Uint8Array.of(10, 0, 0, 1, 192, 0, 2, 7) },
      ];
      const before = await netlink.generation();
      await assert.rejects(netlink.batch(batch), (error: unknown) => {
        assert.ok(error instanceof NftError);
        assert.deepEqual([error.code, error.operation], ['ENOENT', 1]);
        const named = NAMES_ELEMENTS ? 'element 0xc0000207: ' : '';
        assert.ok(error.message.includes(`operation 1 (delete inet t s): ${named}No such file or directory`));
        return true;
      });
      assert.equal((await netlink.elements(set))?.keys.length, 0);
      assert.equal(await netlink.generation(), before);
    });

    it('names the rejected element in a large operation', async () => {
      const keys = new Uint8Array(40_000);
      const view = new DataView(keys.buffer);
      for (let i = 0; i < 10_000; i++) view.setUint32(i * 4, i);
      await netlink.batch([{ op: 'add', ...set, keys }]);
      view.setUint32(9_000 * 4, 77_777);
      await assert.rejects(netlink.batch([{ op: 'delete', ...set, keys }]), {
        code: 'ENOENT',
        message: NAMES_ELEMENTS ? /element 0x00012fd1: No such/ : /No such/,
      });
      assert.equal((await netlink.elements(set))?.keys.length, 40_000);
    });

    it('reports every error of a batch', async () => {
      const missing = (name: string): SetOperation => ({
        op: 'flush',
        family: 'inet',
        table: 't',
        set: name,
      });
      await assert.rejects(netlink.batch([missing('a'), missing('s'), missing('b')]), (error: unknown) => {
        assert.ok(error instanceof NftError);
        assert.deepEqual(
          error.all.map(({ operation }) => operation),
          [0, 2],
        );
        return true;
      });
    });

    it('refuses ranges that overlap', async () => {
      await netlink.batch([
        { op: 'add', ...set, set: 'i', ranges: Uint8Array.of(10, 0, 0, 5, 10, 0, 0, 20) },
      ]);
      const overlapping = Uint8Array.of(10, 0, 0, 10, 10, 0, 0, 30);
      await assert.rejects(netlink.batch([{ op: 'add', ...set, set: 'i', ranges: overlapping }]), NftError);
      const touching = Uint8Array.of(10, 0, 0, 21, 10, 0, 0, 30);
      await netlink.batch([{ op: 'add', ...set, set: 'i', ranges: touching }]);
      assert.equal((await netlink.elements({ ...set, set: 'i' }))?.ranges.length, 16);
    });

    it('sends nothing for an empty batch', async () => {
      for (const batch of [[], [{ op: 'add', ...set, keys: new Uint8Array() } as const]]) {
        const { generation } = await netlink.batch(batch);
        assert.equal(generation.after, generation.before);
      }
    });

    it('copies the keys before it returns', async () => {
      const keys = Uint8Array.of(10, 0, 0, 1);
      const done = netlink.batch([{ op: 'add', ...set, keys }]);
      keys.fill(0);
      await done;
      assert.deepEqual((await netlink.elements(set))?.keys, Uint8Array.of(10, 0, 0, 1));
    });

    it('rejects invalid arguments asynchronously', async () => {
      const wrong: [unknown, string][] = [
        ['no array', 'TypeError'],
        [[{ op: 'add', ...set, keys: [1, 2, 3, 4] }], 'TypeError'],
        [[{ op: 'add', ...set, keys: Uint8Array.of(1, 2, 3) }], 'RangeError'],
        [[{ op: 'add', ...set, keyLength: 0, keys: new Uint8Array(4) }], 'RangeError'],
        [[{ op: 'add', ...set, set: 'x'.repeat(256), keys: new Uint8Array(4) }], 'RangeError'],
        [[{ op: 'add', ...set, table: 'a\0b', keys: new Uint8Array(4) }], 'RangeError'],
        [[{ op: 'add', ...set, family: 'ipx', keys: new Uint8Array(4) }], 'TypeError'],
        [[{ op: 'rename', ...set, keys: new Uint8Array(4) }], 'TypeError'],
        [[{ op: 'add', ...set, keys: new Uint8Array(4), verdicts: [] }], 'RangeError'],
        [[{ op: 'add', ...set, keys: new Uint8Array(4), verdicts: [{ kind: 'jump' }] }], 'TypeError'],
        [
          [{ op: 'add', ...set, keys: new Uint8Array(4), verdicts: [{ kind: 'drop', chain: 'c' }] }],
          'TypeError',
        ],
      ];
      for (const [operations, name] of wrong) {
        await assert.rejects(
          netlink.batch(operations as SetOperation[]),
          { name },
          JSON.stringify(operations),
        );
      }
    });

    it('loads 100,000 addresses at once', async () => {
      const keys = new Uint8Array(400_000);
      const view = new DataView(keys.buffer);
      for (let i = 0; i < 100_000; i++) view.setUint32(i * 4, 0x0a000000 + i * 3);
      await netlink.batch([{ op: 'add', ...set, keys }]);
      // At once: the kernel is still growing the set's table, and its dumps are wrong for some
      // milliseconds.
      assert.ok(Buffer.from(keys).equals((await netlink.elements(set))?.keys ?? new Uint8Array()));
    });
  });
});
