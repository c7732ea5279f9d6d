import assert from 'node:assert/strict';
import { Netlink } from 'nftables-napi';
import { parseCidr } from '../../../lib/net/address.ts';
import { toMemberSet } from '../../../lib/net/member-set.ts';
import { inNamespace, nft } from '../../nftables-napi/test/netns.ts';
import { type ArpTable, arpTableText } from '../render/arp-table.ts';
import { ArpKeeper } from './arp-keeper.ts';

function table(...words: readonly string[]): ArpTable {
  const blocks = words.flatMap((word) => {
    const cidr = parseCidr(word)?.cidr;
    return cidr === undefined ? [] : [{ cidr, except: [] }];
  });
  return toMemberSet(
    blocks,
    words.filter((word) => !word.includes('/')),
  ).v4;
}

const POOL = table('192.0.2.50', '198.51.100.16/28');

inNamespace(import.meta.filename, () => {
  describe('ArpKeeper', () => {
    let netlink: Netlink;
    beforeEach(() => {
      netlink = new Netlink();
    });
    afterEach(async () => {
      await netlink.close();
      nft('flush', 'ruleset');
    });
    const listed = (): string =>
      nft('list', 'table', 'arp', 'nodewall').replaceAll(/packets \d+ bytes \d+ /g, '');

    it('makes the table that the text makes', async () => {
      await new ArpKeeper(netlink).apply(POOL);
      const made = listed();
      nft('flush', 'ruleset');
      nft(arpTableText(POOL));
      assert.equal(made, listed());
      assert.match(made, /198\.51\.100\.16\/28/);
    });

    it('keeps what is alive through changes, and does nothing where nothing changed', async () => {
      const keeper = new ArpKeeper(netlink);
      assert.equal(await keeper.apply(POOL), true);
      assert.equal(await keeper.apply(table('192.0.2.50', '198.51.100.16/28')), false);
      nft('add', 'element', 'arp', 'nodewall', 'live', '{ 192.0.2.50 timeout 60s }');
      assert.equal(await keeper.verify(), false, 'what is alive is nobody’s drift');
      assert.equal(await keeper.apply(table('192.0.2.0/24')), true);
      assert.match(listed(), /192\.0\.2\.50 timeout 1m/);
      assert.match(listed(), /192\.0\.2\.0\/24/);
      assert.doesNotMatch(listed(), /198\.51/);
    });

    it('repairs what others change, and makes the table in the place of another one', async () => {
      nft('add table arp nodewall; add set arp nodewall live { type ipv4_addr; }');
      const keeper = new ArpKeeper(netlink);
      await keeper.apply(POOL);
      const made = listed();
      for (const change of [
        'flush chain arp nodewall own',
        'flush set arp nodewall floating',
        'flush ruleset',
      ]) {
        nft(change);
        assert.equal(await keeper.verify(), true, change);
        await keeper.apply(POOL);
        assert.equal(listed(), made, change);
      }
      assert.equal(await keeper.apply(null), true);
      assert.equal(await keeper.remove(), false);
      assert.equal(nft('list', 'tables'), '');
    });
  });
});
