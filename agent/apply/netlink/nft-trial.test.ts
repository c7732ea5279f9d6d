import assert from 'node:assert/strict';
import { NftError } from 'nftables-napi';
import { nftNeeds, tryNeeds } from './nft-trial.ts';

/** The answer of a kernel that lacks an expression. */
const ENOENT = new NftError([
  { code: 'ENOENT', message: 'Could not process rule: No such file or directory', operation: null },
]);

describe('the trial of nf_tables', () => {
  const lacking = (...words: readonly string[]) => ({
    runs: [] as string[],
    async run(text: string): Promise<void> {
      this.runs.push(text);
      if (words.some((word) => text.includes(word))) throw ENOENT;
    },
  });
  async function tried(egress: boolean, ...words: readonly string[]) {
    const kernel = lacking(...words);
    const trial = await tryNeeds(nftNeeds({ hooked: true, egress }), (text) => kernel.run(text));
    return { trial, runs: kernel.runs.length };
  }

  it('is one run where all works', async () => {
    assert.deepEqual(await tried(true), { trial: { works: true }, runs: 1 });
  });

  it('names what the kernel lacks, and its module', async () => {
    for (const [words, why] of [
      [
        ['fib '],
        /^this kernel lacks fib \(module nft_fib_inet, CONFIG_NFT_FIB_INET\); .*: modprobe nft_fib_inet: Could not process rule: No such file/,
      ],
      [
        ['add table'],
        /^this kernel lacks tables of both families \(inet\) \(module nf_tables, CONFIG_NF_TABLES_INET\)/,
      ],
      [['hook input'], /^this kernel lacks base chains \(hook input\)/],
      [
        ['reject', 'limit rate'],
        /lacks limits \(module nft_limit, .*\), reject \(module nft_reject_inet, .* nft_limit nft_reject_inet:/,
      ],
    ] as const) {
      const { trial } = await tried(false, ...words);
      assert.match(trial.works ? '' : trial.why, why);
    }
    const { trial } = await tried(true, 'jhash', 'masquerade');
    assert.match(trial.works ? '' : trial.why, /lacks hashes \(jhash\) .*, masquerade \(module nft_masq/);
  });

  it("has the kernel's message where each part works by itself", async () => {
    const kernel = lacking();
    const trial = await tryNeeds(nftNeeds({ hooked: false, egress: false }), async (text) => {
      await kernel.run(text);
      if (kernel.runs.length === 1) throw ENOENT;
    });
    assert.deepEqual(trial, { works: false, why: ENOENT.message });
  });

  it('does not go on without permission', async () => {
    const refused = Object.assign(Object.create(NftError.prototype), { code: 'EPERM', message: 'no' });
    await assert.rejects(
      tryNeeds(nftNeeds({ hooked: false, egress: true }), () => Promise.reject(refused)),
      { code: 'EPERM' },
    );
  });
});
