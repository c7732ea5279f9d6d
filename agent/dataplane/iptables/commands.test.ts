import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { iptablesCommands, workingCommands } from './commands.ts';

describe('the commands of iptables', () => {
  const { PATH } = process.env;
  const VERSIONS = {
    nft: 'iptables v1.8.9 (nf_tables)',
    legacy: 'iptables v1.8.9 (legacy)',
    old: 'iptables v1.6.1',
  };
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-commands-'));
    process.env.PATH = folder;
  });
  afterEach(async () => {
    process.env.PATH = PATH;
    await rm(folder, { recursive: true });
  });

  /** Installs a command in a directory that PATH contains. */
  async function install(name: string, version: keyof typeof VERSIONS): Promise<void> {
    await writeFile(join(folder, name), `#!/bin/sh\necho '${VERSIONS[version]}'\n`, { mode: 0o755 });
  }
  async function commands(variant: 'auto' | 'nft' | 'legacy'): Promise<string[]> {
    const found = await iptablesCommands({ iptables: { variant } });
    return [found.variant, found.tools.variant];
  }

  it("are those of the variant of the system's iptables, even if that changes later", async () => {
    for (const variant of ['nft', 'legacy'] as const) {
      await install(`iptables-${variant}`, variant);
    }
    await install('iptables', 'legacy');
    assert.deepEqual(await commands('auto'), ['legacy', 'legacy']);
    await install('iptables', 'nft');
    assert.deepEqual(await commands('auto'), ['nft', 'nft']);
    assert.deepEqual(await commands('legacy'), ['legacy', 'legacy']);
  });

  it("are the system's own if none are named for the variant", async () => {
    await install('iptables', 'old');
    assert.deepEqual(await commands('auto'), ['legacy', 'auto']);
  });

  it('are those of the other variant if only these work in the kernel, else those that work for IPv4', async () => {
    for (const name of ['iptables', 'iptables-nft'] as const) await install(name, 'nft');
    await install('iptables-legacy', 'legacy');
    const tried: string[] = [];
    async function working(
      failing: Readonly<Record<string, readonly (4 | 6)[]>>,
      variant: 'auto' | 'nft' = 'auto',
    ) {
      tried.length = 0;
      const found = await workingCommands({ iptables: { variant } }, async (tools) => {
        tried.push(tools.variant);
        return new Map((failing[tools.variant] ?? []).map((family) => [family, `IPv${family} fails`]));
      });
      return [found.tools?.variant, found.lacks];
    }
    assert.deepEqual(await working({}), ['nft', '']);
    assert.deepEqual(tried, ['nft']);
    assert.deepEqual(await working({ nft: [4, 6] }), ['legacy', '']);
    assert.deepEqual(await working({ nft: [6], legacy: [6] }), ['nft', 'nft: IPv6 fails']);
    assert.deepEqual(await working({ nft: [4], legacy: [6] }), ['legacy', 'legacy: IPv6 fails']);
    assert.deepEqual(await working({ nft: [4], legacy: [4] }), [
      undefined,
      'nft: IPv4 fails; legacy: IPv4 fails',
    ]);
    assert.deepEqual(await working({ nft: [4] }, 'nft'), [undefined, 'nft: IPv4 fails']);
    assert.deepEqual(tried, ['nft']);
  });

  it('are named in the error if they are missing', async () => {
    await install('iptables-legacy', 'legacy');
    await assert.rejects(commands('auto'), /needs the commands iptables and ipset/);
    await assert.rejects(commands('nft'), /needs the commands iptables-nft and ipset/);
  });
});
