import assert from 'node:assert/strict';
import { type NftTrial, tryNftables } from '../apply/netlink/nft-trial.ts';
import { chooseDataplane } from './dataplanes.ts';

const WORKS: NftTrial = { works: true };
const OF_IPTABLES: { trial: NftTrial } = { trial: WORKS };
const REFUSED: NftTrial = { works: false, why: 'Operation not supported' };

/** The choice, with these results of the ways to try nf_tables; null: the way is not available. */
function choose(dataplane: 'nftables' | 'iptables' | 'auto', ...trials: readonly (NftTrial | null)[]) {
  const asked: (NftTrial | null)[] = [];
  const ways = trials.map((trial) => async () => {
    asked.push(trial);
    return trial;
  });
  const kinds = {
    nftables: { port: async () => ({ trial: () => tryNftables(ways) }) },
    iptables: { port: async () => ({ trial: async () => OF_IPTABLES.trial }) },
  };
  return chooseDataplane({ dataplane, iptables: { variant: 'auto' } }, kinds).then(({ name, why }) => [
    name,
    why,
    asked.length,
  ]);
}

describe('the dataplane', () => {
  it('is the configured one, without a trial', async () => {
    assert.deepEqual(await choose('nftables', REFUSED), ['nftables', 'configured', 0]);
    assert.deepEqual(await choose('iptables', WORKS), ['iptables', 'configured', 0]);
  });

  it('is nftables if that works, else iptables, with the reason', async () => {
    assert.deepEqual(await choose('auto', WORKS, REFUSED), ['nftables', 'nftables works here', 1]);
    assert.deepEqual(await choose('auto', REFUSED, WORKS), [
      'iptables',
      'nftables does not work here: Operation not supported; iptables works here',
      1,
    ]);
  });

  it('is none where neither works', async () => {
    OF_IPTABLES.trial = { works: false, why: 'no table filter' };
    try {
      await assert.rejects(
        choose('auto', REFUSED),
        /^CommandError: nftables does not work here: .*; iptables does not work here: no table filter$/,
      );
    } finally {
      OF_IPTABLES.trial = WORKS;
    }
  });

  it('is tried in the next way if one is not available', async () => {
    assert.deepEqual(await choose('auto', null, null, WORKS), ['nftables', 'nftables works here', 3]);
    assert.deepEqual(await choose('auto', null), [
      'iptables',
      'nftables does not work here: the trial could not be run; iptables works here',
      1,
    ]);
  });
});
