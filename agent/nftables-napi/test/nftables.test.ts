import assert from 'node:assert/strict';
import { Nftables } from '../lib/index.ts';
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

    it('runs a transaction', async () => {
      assert.equal(await context.run('add table inet t\nadd chain inet t c'), '');
      assert.match(nft('list', 'ruleset'), /chain c/);
    });

    it('applies a text completely or not at all', async () => {
      await assert.rejects(context.run('add table inet t\nadd rule inet t nope accept\nadd table inet u'), {
        code: 'ENOENT',
        message: 'Could not process rule: No such file or directory',
      });
      assert.equal(nft('list', 'ruleset'), '');
    });

    it('lists JSON', async () => {
      await context.run('add table inet t\nadd set inet t s { type ipv4_addr; elements = { 192.0.2.1 } }');
      assert.match(JSON.stringify(await context.list('table inet t')), /192\.0\.2\.1/);
      await assert.rejects(context.list('table inet none'), { code: 'ENOENT' });
    });

    it('lists numbers, or names where they are asked for', async () => {
      await context.run('add table inet t\nadd chain inet t c\nadd rule inet t c tcp dport 22 counter');
      assert.match(await context.run('list table inet t'), /dport 22 counter packets 0/);
      const other = new Nftables({ numeric: false });
      assert.match(await other.run('list table inet t'), /dport (22|ssh) counter packets 0/);
      await other.close();
    });

    it('accepts texts of a megabyte', async () => {
      const lines = Array.from(
        { length: 20_000 },
        (_, i) => `add rule inet t c ip saddr 10.${i >> 8}.${i & 255}.0/24 accept`,
      );
      await context.run(['add table inet t', 'add chain inet t c', ...lines].join('\n'));
      await assert.rejects(context.run('x'.repeat(200_000)), { code: 'SYNTAX' });
    }).timeout(60_000);
  });
});
