import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { iptablesTools, toIptablesError, variantOf } from './tools.ts';

/** Messages of iptables 1.8.9, both variants. */
const CASES: readonly (readonly [
  stderr: string,
  exitCode: number,
  code: string,
  line: number | null,
  message: string,
])[] = [
  [
    "iptables-nft-restore v1.8.9 (nf_tables): unknown option \"--bogus\"\nError occurred at line: 4\nTry `iptables-nft-restore -h' or 'iptables-nft-restore --help' for more information.\n",
    2,
    'REFUSED',
    4,
    'x: unknown option "--bogus"',
  ],
  [
    'iptables-nft-restore v1.8.9 (nf_tables): \nline 12: RULE_APPEND failed (Invalid argument): rule in chain NODEWALL-B\n',
    4,
    'REFUSED',
    12,
    'x: line 12: RULE_APPEND failed (Invalid argument): rule in chain NODEWALL-B',
  ],
  ['iptables-restore: line 5 failed\n', 1, 'REFUSED', 5, 'x: iptables-restore: line 5 failed'],
  [
    'iptables-nft-save v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n',
    4,
    'NOT_PERMITTED',
    null,
    'x: Could not fetch rule set generation id: Permission denied (you must be root) (it needs',
  ],
  [
    "iptables-nft-save v1.8.9 (nf_tables): Can't open socket to ipset.\n\n",
    1,
    'NOT_PERMITTED',
    null,
    "x: Can't open socket to ipset. (it needs CAP_NET_ADMIN, CAP_NET_RAW",
  ],
  [
    "Fatal: can't open lock file /run/xtables.lock: Permission denied\n",
    4,
    'NOT_PERMITTED',
    null,
    'x: Fatal: can',
  ],
  [
    "Can't lock /run/xtables.lock: Resource temporarily unavailable\nAnother app is currently holding the xtables lock. Stopped waiting after 1s.\n",
    4,
    'LOCKED',
    null,
    "x: Can't lock",
  ],
  [
    "iptables-restore v1.8.9 (legacy): iptables-restore: unable to initialize table 'nat'\nError occurred at line: 1\n",
    2,
    'NO_KERNEL_SUPPORT',
    1,
    'x: iptables-restore: unable',
  ],
  ['', 1, 'UNKNOWN', null, 'x: exit code 1'],
];

describe('the standard error of iptables', () => {
  for (const [stderr, exitCode, code, line, message] of CASES) {
    it(`is ${code}${line === null ? '' : ` in line ${line}`}: ${message}`, () => {
      const error = toIptablesError('x', exitCode, stderr);
      assert.deepEqual([error.code, error.line, error.exitCode], [code, line, exitCode]);
      assert.ok(error.message.startsWith(message), error.message);
    });
  }
});

describe('a reading', () => {
  /** Replaces iptables-save by a program that fails this many times, with this message. */
  function failing(times: number, said: string) {
    const program = `
      const { appendFileSync, readFileSync } = require('node:fs');
      appendFileSync(process.argv[1], '.');
      if (readFileSync(process.argv[1]).length <= ${times}) { console.error(${JSON.stringify(said)}); process.exit(2); }
      console.log('*filter');`;
    return (file: string) => iptablesTools('nft', { before: [process.execPath, '-e', program, file] });
  }
  const vanished = "iptables-nft-save v1.8.9 (nf_tables): Set with index 2 in kernel doesn't exist.";

  it('is repeated when a set disappears during it, and fails after several attempts', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'nodewall-tools-'));
    try {
      assert.equal(await failing(2, vanished)(join(folder, 'twice')).save(4), '*filter\n');
      await assert.rejects(failing(9, vanished)(join(folder, 'always')).save(4), /index 2 in kernel/);
      const other = failing(1, 'Permission denied')(join(folder, 'other'));
      await assert.rejects(other.save(4), { code: 'NOT_PERMITTED' });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe('the variant of iptables', () => {
  it('is recognized by its version output', () => {
    assert.equal(variantOf('iptables v1.8.9 (nf_tables)\n'), 'nft');
    assert.equal(variantOf('iptables v1.8.9 (legacy)\n'), 'legacy');
    assert.equal(variantOf('iptables v1.6.1\n'), 'legacy');
  });
});
