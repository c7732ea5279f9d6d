import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readPressure } from './conntrack-pressure.ts';

describe('readPressure', () => {
  let proc: string;
  before(() => {
    proc = mkdtempSync(join(tmpdir(), 'nodewall-proc-'));
  });
  after(() => rmSync(proc, { recursive: true }));

  it('is null without connection tracking', async () => {
    assert.equal(await readPressure(proc), null);
  });

  it('adds up the hexadecimal numbers of all processors', async () => {
    mkdirSync(join(proc, 'sys/net/netfilter'), { recursive: true });
    mkdirSync(join(proc, 'net/stat'), { recursive: true });
    writeFileSync(join(proc, 'sys/net/netfilter/nf_conntrack_count'), '12\n');
    writeFileSync(join(proc, 'sys/net/netfilter/nf_conntrack_max'), '262144\n');
    writeFileSync(
      join(proc, 'net/stat/nf_conntrack'),
      'entries  clashres found insert insert_failed drop early_drop\n' +
        '0000000c  00000000 00000000 00000000 0000000a 00000001 00000000\n' +
        '0000000c  00000000 00000000 00000000 00000010 00000000 00000002\n',
    );
    assert.deepEqual(await readPressure(proc), {
      entries: 12,
      max: 262_144,
      failures: { insert_failed: 26, drop: 1, early_drop: 2 },
    });
  });

  it('reads this machine', async () => {
    const found = await readPressure();
    assert.ok(found === null || (found.max > 0 && Object.values(found.failures).every(Number.isInteger)));
  });
});
