import assert from 'node:assert/strict';
import { Netlink, type RuleSnapshot } from '../lib/index.ts';
import { inNamespace, nft } from './netns.ts';

inNamespace(import.meta.filename, () => {
  describe('Netlink.snapshot', () => {
    let netlink: Netlink;
    beforeEach(() => {
      netlink = new Netlink();
      nft('add table inet t; add chain inet t c; add table inet other; add chain inet other c');
    });
    afterEach(async () => {
      await netlink.close();
      nft('flush', 'ruleset');
    });

    const rules = async (): Promise<RuleSnapshot[]> =>
      (await netlink.snapshot('inet', 't'))?.chains.flatMap((chain) => chain.rules) ?? [];
    const digests = async (...texts: string[]): Promise<string[]> => {
      nft('flush chain inet t c');
      for (const text of texts) nft(`add rule inet t c ${text}`);
      return (await rules()).map(({ digest }) => digest);
    };

    it('has chains, rules and sets of this table only', async () => {
      nft('add chain inet t in { type filter hook input priority -5; policy drop; }');
      nft('add chain inet t pre { type nat hook prerouting priority -100; }');
      nft('add set inet t s { type ipv6_addr; flags interval; elements = { 2001:db8::/32, ff00::/8 } }');
      nft('add map inet t m { type inet_service : verdict; elements = { 80 : drop } }');
      nft('add rule inet other c accept');
      nft(
        'add rule inet t c tcp dport { 80, 443 } counter packets 7 bytes 9 accept comment "hello, \\world"',
      );
      nft('add rule inet t c drop');
      const found = await netlink.snapshot('inet', 't');
      assert.equal(found?.generation, await netlink.generation());
      assert.deepEqual(
        found?.chains.map(({ name, base, rules: { length } }) => [name, base, length]),
        [
          ['c', null, 2],
          ['in', { type: 'filter', hook: 'input', priority: -5, policy: 'drop' }, 0],
          ['pre', { type: 'nat', hook: 'prerouting', priority: -100, policy: 'accept' }, 0],
        ],
      );
      const [first, second] = found?.chains[0]?.rules ?? [];
      assert.deepEqual([first?.comment, first?.packets, first?.bytes], ['hello, \\world', 7n, 9n]);
      assert.deepEqual([second?.comment, second?.packets], [null, null]);
      assert.match(
        nft('-a', 'list', 'chain', 'inet', 't', 'c'),
        new RegExp(`drop # handle ${second?.handle}\\n`),
      );
      const sets = found?.sets.filter(({ isAnonymous }) => !isAnonymous);
      assert.deepEqual(
        sets?.map(({ name, keyLength, isMap, isInterval }) => [name, keyLength, isMap, isInterval]),
        [
          ['s', 16, false, true],
          ['m', 2, true, false],
        ],
      );
      for (const { elementCount } of sets ?? []) assert.ok(elementCount === null || elementCount > 0);
      assert.equal(found?.sets.length, 3);
    });

    it('is null for a table that does not exist', async () => {
      assert.equal(await netlink.snapshot('inet', 'none'), null);
      assert.equal(await netlink.snapshot('ip', 't'), null);
    });

    it('gives equal rules equal digests, and others different ones', async () => {
      const texts = [
        'tcp dport 80 accept',
        'tcp dport 81 accept',
        'tcp dport 80 drop',
        'tcp dport { 80, 443 } accept',
        'tcp dport { 80, 444 } accept',
        'tcp dport vmap { 80 : accept, 443 : drop }',
        'tcp dport vmap { 80 : accept, 443 : accept }',
        'ip saddr { 10.0.0.0/8, 192.0.2.1 } counter accept',
        'ip saddr { 10.0.0.0/8, 192.0.2.2 } counter accept',
        'counter accept',
        'accept',
        'quota 10 mbytes accept',
        'quota 11 mbytes accept',
      ];
      const first = await digests(...texts);
      assert.equal(new Set(first).size, texts.length);
      for (const digest of first) assert.match(digest, /^[0-9a-f]{16}$/);
      assert.deepEqual(await digests(...texts), first);
      // Each has an anonymous set of its own, under a name of its own.
      const [one, two] = await digests('tcp dport { 80, 443 } accept', 'tcp dport { 443, 80 } accept');
      assert.equal(one, two);
    });

    it('leaves counters and comments out of the digest', async () => {
      const [a, b, c, d] = await digests(
        'counter packets 1 bytes 1 accept',
        'counter packets 5 bytes 6 accept comment "x"',
        'quota 10 mbytes used 0 bytes drop',
        'quota 10 mbytes used 5 kbytes drop',
      );
      assert.equal(a, b);
      assert.equal(c, d);
    });

    it('is consistent while another process commits', async () => {
      // Every commit makes a chain and a rule in it together: a torn dump would show one without
      // the other.
      let stop = false;
      const writer = (async () => {
        const { Nftables } = await import('../lib/index.ts');
        const context = new Nftables();
        for (let i = 0; !stop; i++)
          await context.run(`add chain inet t x${i}\nadd rule inet t x${i} counter accept`);
        await context.close();
      })();
      try {
        for (let i = 0; i < 30; i++) {
          const found = await netlink.snapshot('inet', 't');
          for (const { name, rules: inside } of found?.chains ?? []) {
            if (name !== 'c') assert.equal(inside.length, 1, name);
          }
        }
      } finally {
        stop = true;
        await writer;
      }
    }).timeout(60_000);
  });
});
