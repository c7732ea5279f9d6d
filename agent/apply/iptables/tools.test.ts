import assert from 'node:assert/strict';
import { toIptablesError } from './tools.ts';

/** As iptables 1.8.9 says it, in both variants. */
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

describe('what iptables says on standard error', () => {
  for (const [stderr, exitCode, code, line, message] of CASES) {
    it(`is ${code}${line === null ? '' : ` in line ${line}`}: ${message}`, () => {
      const error = toIptablesError('x', exitCode, stderr);
      assert.deepEqual([error.code, error.line, error.exitCode], [code, line, exitCode]);
      assert.ok(error.message.startsWith(message), error.message);
    });
  }
});
