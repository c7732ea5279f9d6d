import assert from 'node:assert/strict';
import { Netlink, Nftables, NftError } from '../lib/index.ts';
import { inNamespace, nft } from './netns.ts';

inNamespace(import.meta.filename, () => {
  describe('Nftables', () => {
    let context: Nftables;
    beforeEach(() => {
      context = new Nftables();
    });
    afterEach(async () => {
      await context.close();
      nft('flush', 'ruleset');
    });

    it('runs a transaction and returns its generation', async () => {
      const { output, generation } = await context.run('add table inet t\nadd chain inet t c');
      assert.equal(output, '');
      assert.equal(generation.after, generation.before + 1);
      assert.match(nft('list', 'ruleset'), /chain c/);
    });

    it('applies a text completely or not at all', async () => {
      await assert.rejects(context.run('add table inet t\nadd rule inet t nope accept\nadd table inet u'), {
        code: 'ENOENT',
        line: 2,
        column: 17,
        command: 'add rule inet t nope accept',
        refersTo: 'nope',
      });
      assert.equal(nft('list', 'ruleset'), '');
    });

    it('changes nothing on check', async () => {
      await context.check('add table inet t');
      assert.equal(nft('list', 'ruleset'), '');
      await assert.rejects(context.check('add rule inet t nope accept'), { code: 'ENOENT' });
      await assert.rejects(context.check('bad grammar'), { code: 'SYNTAX' });
    });

    it('lists JSON, with and without the elements of sets', async () => {
      await context.run('add table inet t\nadd set inet t s { type ipv4_addr; elements = { 192.0.2.1 } }');
      const sets = async (terse: boolean) => JSON.stringify(await context.list('table inet t', { terse }));
      assert.match(await sets(false), /192\.0\.2\.1/);
      assert.doesNotMatch(await sets(true), /192\.0\.2\.1/);
      await assert.rejects(context.list('table inet none'), { code: 'ENOENT', refersTo: 'none' });
    });

    it('uses its options', async () => {
      await context.run('add table inet t\nadd chain inet t c\nadd rule inet t c tcp dport 22 counter');
      assert.match((await context.run('list table inet t')).output, /dport 22 counter packets 0/);
      const other = new Nftables({ handles: true, echo: true, stateless: true });
      assert.match((await other.run('list table inet t')).output, /counter # handle \d/);
      assert.match((await other.run('add rule inet t c accept')).output, /add rule inet t c accept/);
      await other.close();
    });

    it('accepts texts of a megabyte', async () => {
      const lines = Array.from(
        { length: 20_000 },
        (_, i) => `add rule inet t c ip saddr 10.${i >> 8}.${i & 255}.0/24 accept`,
      );
      const { generation } = await context.run(
        ['add table inet t', 'add chain inet t c', ...lines].join('\n'),
      );
      assert.equal(generation.after, generation.before + 1);
      await assert.rejects(context.run('x'.repeat(200_000)), { code: 'SYNTAX' });
    }).timeout(60_000);

    it('reports the position of an error in an indented line far down', async () => {
      const text = `add table inet t\n${'# comment\n'.repeat(5_000)}   add chain inet t 7bad\n`;
      await assert.rejects(context.run(text), (error: unknown) => {
        assert.ok(error instanceof NftError);
        assert.deepEqual(
          [error.code, error.line, error.command],
          ['SYNTAX', 5_002, '   add chain inet t 7bad'],
        );
        return true;
      });
    });

    it('reads the same generation as the socket', async () => {
      const netlink = new Netlink();
      const { generation } = await context.run('add table inet t');
      assert.equal(await netlink.generation(), generation.after);
      await netlink.close();
    });
  });
});
