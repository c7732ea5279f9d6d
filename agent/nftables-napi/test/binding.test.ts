import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { addonPaths, loadBinding } from '../lib/binding.ts';

describe('loadBinding', () => {
  it('lists the paths tried and the packages to install, and keeps the cause', () => {
    assert.throws(
      () => loadBinding(['/nowhere/a.node', '/nowhere/b.node']),
      (error: Error) => {
        assert.match(error.message, /\/nowhere\/a\.node/);
        assert.match(error.message, /\/nowhere\/b\.node/);
        assert.match(error.message, /libnftables-dev libnftnl-dev libmnl-dev/);
        assert.ok(error.cause instanceof Error);
        return true;
      },
    );
  });

  it('keeps the loader’s message for a file that is not an addon', () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'nftables-napi-'));
    const file = path.join(folder, 'nftables_napi.node');
    try {
      writeFileSync(file, 'not an addon');
      assert.throws(
        () => loadBinding(['/nowhere/a.node', file]),
        (error: Error) => error.cause instanceof Error && error.cause.message.includes(file),
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('has the constants of the system’s headers', () => {
    const { outputFlags, families, verdicts } = loadBinding(addonPaths);
    const header = readFileSync('/usr/include/nftables/libnftables.h', 'utf8');
    const [, bit] = /NFT_CTX_OUTPUT_JSON\s*=\s*\(1 << (\d+)\)/.exec(header) ?? [];
    assert.equal(outputFlags.json, 1 << Number(bit));
    assert.equal(families.inet, 1);
    assert.equal((verdicts.jump ?? 0) | 0, -3);
  });
});
