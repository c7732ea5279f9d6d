import assert from 'node:assert/strict';
import { type MapVerdict, Netlink, Nftables } from '../lib/index.ts';
import { inNamespace, isLinux, nft } from './netns.ts';

const name = (set: string) => ({ family: 'inet', table: 't', set }) as const;

function bytes(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex.replaceAll(' ', ''), 'hex'));
}

inNamespace(import.meta.filename, () => {
  describe('elements of sets', () => {
    let netlink: Netlink;
    let context: Nftables;
    beforeEach(async () => {
      netlink = new Netlink();
      context = new Nftables();
      await context.run('add table inet t\nadd chain inet t c\nadd chain inet t d');
    });
    afterEach(async () => {
      await Promise.all([netlink.close(), context.close()]);
      nft('flush', 'ruleset');
    });

    const keyCases = [
      {
        type: 'inet_service',
        keyLength: 2,
        keys: '0050 01bb ffff 0000',
        listed: ['0', '80', '443', '65535'],
      },
      {
        type: 'ipv4_addr',
        keyLength: 4,
        keys: 'ffffffff 0a000001 00000000',
        listed: ['10.0.0.1', '255.255.255.255'],
      },
      {
        type: 'ipv6_addr',
        keyLength: 16,
        keys: `20010db8${'00'.repeat(12)} ${'ff'.repeat(16)}`,
        listed: ['2001:db8::'],
      },
      { type: 'inet_proto . inet_service', keyLength: 8, keys: '06000000 00500000', listed: ['6 . 80'] },
    ];
    for (const { type, keyLength, keys, listed } of keyCases) {
      it(`adds, reads and deletes keys of ${keyLength} bytes (${type})`, async () => {
        await context.run(`add set inet t s { type ${type}; }`);
        await netlink.batch([{ op: 'add', ...name('s'), keyLength, keys: bytes(keys) }]);
        const text = nft('-n', 'list', 'set', 'inet', 't', 's');
        for (const element of listed) assert.ok(text.includes(element), `${element} in ${text}`);
        const found = await netlink.elements(name('s'));
        const hex = Buffer.from(bytes(keys)).toString('hex');
        const sorted = [...hex.matchAll(new RegExp(`.{${keyLength * 2}}`, 'g'))].map(([key]) => key).sort();
        assert.equal(Buffer.from(found?.keys ?? []).toString('hex'), sorted.join(''));
        assert.deepEqual(
          [found?.keyLength, found?.isInterval, found?.isMap, found?.ranges.length],
          [keyLength, false, false, 0],
        );
        await netlink.batch([{ op: 'delete', ...name('s'), keyLength, keys: bytes(keys) }]);
        assert.equal((await netlink.elements(name('s')))?.keys.length, 0);
      });
    }

    const rangeCases = [
      { type: 'inet_service', keyLength: 2, ranges: '0050 0050 03e8 ffff', listed: /80, 1000-65535/ },
      {
        type: 'ipv4_addr',
        keyLength: 4,
        ranges: '00000000 00000000 0a000000 0affffff 0b000000 0b000000 f0000000 ffffffff',
        listed: /0\.0\.0\.0, 10\.0\.0\.0\/8,\s+11\.0\.0\.0, 240\.0\.0\.0\/4/,
      },
      {
        type: 'ipv6_addr',
        keyLength: 16,
        ranges: `20010db8${'00'.repeat(12)} 20010db8${'ff'.repeat(12)} ff${'00'.repeat(15)} ${'ff'.repeat(16)}`,
        listed: /2001:db8::\/32,\s+ff00::\/8/,
      },
    ];
    for (const { type, keyLength, ranges, listed } of rangeCases) {
      it(`adds, reads and deletes ranges of ${type}, up to the highest`, async () => {
        await context.run(`add set inet t s { type ${type}; flags interval; }`);
        await netlink.batch([{ op: 'add', ...name('s'), keyLength, ranges: bytes(ranges) }]);
        assert.match(nft('-n', 'list', 'set', 'inet', 't', 's'), listed);
        const found = await netlink.elements(name('s'));
        assert.deepEqual(found?.ranges, bytes(ranges));
        assert.deepEqual([found?.isInterval, found?.keys.length], [true, 0]);
        // libnftables must still be able to work on it.
        await context.run(
          `delete element inet t s { ${listedElements(nft('-n', 'list', 'set', 'inet', 't', 's'))} }`,
        );
        assert.equal((await netlink.elements(name('s')))?.ranges.length, 0);
        await netlink.batch([{ op: 'add', ...name('s'), keyLength, ranges: bytes(ranges) }]);
        await netlink.batch([{ op: 'delete', ...name('s'), keyLength, ranges: bytes(ranges) }]);
        assert.doesNotMatch(nft('list', 'set', 'inet', 't', 's'), /elements/);
      });
    }

    it('deletes by netlink elements that were loaded as text', async () => {
      await context.run(
        'add set inet t s { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 192.0.2.7, 224.0.0.0-255.255.255.255 } }',
      );
      const found = await netlink.elements(name('s'));
      assert.deepEqual(found?.ranges, bytes('0a000000 0affffff c0000207 c0000207 e0000000 ffffffff'));
      const ranges = bytes('c0000207 c0000207 e0000000 ffffffff');
      await netlink.batch([{ op: 'delete', ...name('s'), keyLength: 4, ranges }]);
      assert.match(nft('list', 'set', 'inet', 't', 's'), /elements = \{ 10\.0\.0\.0\/8 \}/);
    });

    it('fills verdict maps, of keys and of ranges', async () => {
      await context.run(
        'add map inet t m { type inet_service : verdict; }\nadd map inet t n { type inet_service : verdict; flags interval; }',
      );
      const verdicts: MapVerdict[] = [
        { kind: 'jump', chain: 'c' },
        { kind: 'drop' },
        { kind: 'goto', chain: 'd' },
        { kind: 'accept' },
        { kind: 'return' },
        { kind: 'continue' },
      ];
      const keys = bytes('0001 0002 0003 0004 0005 0006');
      const ranges = bytes('0001 0001 0002 0009 000a 0013 0020 0020 0021 0030 0100 ffff');
      await netlink.batch([
        { op: 'add', ...name('m'), keyLength: 2, keys, verdicts },
        { op: 'add', ...name('n'), keyLength: 2, ranges, verdicts },
      ]);
      assert.match(
        nft('list', 'map', 'inet', 't', 'm'),
        /1 : jump c,\s+2 : drop,\s+3 : goto d,\s+4 : accept,\s+5 : return,\s+6 : continue/,
      );
      assert.match(
        nft('list', 'map', 'inet', 't', 'n'),
        /1 : jump c,\s+2-9 : drop,\s+10-19 : goto d,[\s\S]+256-65535 : continue/,
      );
      assert.deepEqual((await netlink.elements(name('m')))?.verdicts, verdicts);
      const interval = await netlink.elements(name('n'));
      assert.deepEqual([interval?.verdicts, interval?.ranges, interval?.isMap], [verdicts, ranges, true]);
      // The same again is no error; another verdict at the same key is.
      await netlink.batch([{ op: 'add', ...name('m'), keyLength: 2, keys, verdicts }]);
      const other = netlink.batch([
        { op: 'add', ...name('m'), keyLength: 2, keys, verdicts: [...verdicts].reverse() },
      ]);
      await assert.rejects(other, { code: /EBUSY|EEXIST/ });
      await netlink.batch([
        { op: 'delete', ...name('n'), keyLength: 2, ranges },
        { op: 'flush', ...name('m') },
      ]);
      assert.equal((await netlink.elements(name('n')))?.ranges.length, 0);
    });

    it('fills ranges of a concatenation', async () => {
      await context.run('add map inet t k { type inet_proto . inet_service : verdict; flags interval; }');
      const ranges = bytes('06000000 03e80000 06000000 07d00000 11000000 00350000 11000000 00350000');
      const verdicts: MapVerdict[] = [{ kind: 'jump', chain: 'c' }, { kind: 'drop' }];
      const operation = { ...name('k'), keyLength: 8, ranges, concatenated: true } as const;
      await netlink.batch([{ op: 'add', ...operation, verdicts }]);
      assert.match(nft('-n', 'list', 'map', 'inet', 't', 'k'), /6 \. 1000-2000 : jump c,\s+17 \. 53 : drop/);
      const found = await netlink.elements(name('k'));
      assert.deepEqual([found?.ranges, found?.verdicts], [ranges, verdicts]);
      await netlink.batch([{ op: 'delete', ...operation }]);
      assert.equal((await netlink.elements(name('k')))?.ranges.length, 0);
    });

    it('sends more elements than one message can contain, and returns whether the set exists', async () => {
      await context.run('add set inet t s { type ipv6_addr; }');
      const count = 20_000;
      const keys = new Uint8Array(count * 16);
      const view = new DataView(keys.buffer);
      for (let i = 0; i < count; i++) view.setUint32(i * 16 + 12, i);
      await netlink.batch([{ op: 'add', ...name('s'), keyLength: 16, keys }]);
      assert.ok(Buffer.from(keys).equals((await netlink.elements(name('s')))?.keys ?? new Uint8Array()));
      assert.equal(await netlink.elements(name('nothing')), null);
      assert.equal(await netlink.elements({ family: 'ip', table: 'nothing', set: 's' }), null);
    });

    it('recognizes the catch-all element', async function () {
      if (!isLinux(5, 13)) this.skip();
      await context.run(
        'add map inet t m { type ipv4_addr : verdict; elements = { 192.0.2.1 : drop, * : accept } }',
      );
      const found = await netlink.elements(name('m'));
      assert.deepEqual([found?.hasCatchAll, found?.keys], [true, bytes('c0000201')]);
    });
  });
});

/** The elements of `nft list set`, as text. */
function listedElements(listing: string): string {
  return /elements = \{([^}]*)\}/.exec(listing)?.[1]?.trim() ?? '';
}
