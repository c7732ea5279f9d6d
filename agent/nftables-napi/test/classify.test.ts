import assert from 'node:assert/strict';
import { loadBinding } from '../lib/binding.ts';
import { toErrnoTable } from '../lib/errors.ts';
import { toTextError } from '../lib/nftables.ts';

const table = toErrnoTable(loadBinding().errors);

interface Case {
  claim: string;
  stderr: string;
  expected: string;
}

// Captured from libnftables 1.0.6, but for the last ones, which are made up.
const cases: Case[] = [
  {
    claim: 'a chain that is not there',
    stderr:
      '/proc/self/fd/22:2:18-19: Error: Could not process rule: No such file or directory\n\tadd rule inet q zz accept\n\t                ^^\n',
    expected: 'ENOENT',
  },
  {
    claim: 'a table that is not there, found by libnftables itself',
    stderr:
      '/proc/self/fd/22:1:15-18: Error: No such file or directory\nlist table ip none\n              ^^^^\n',
    expected: 'ENOENT',
  },
  {
    claim: 'a near miss with a hint',
    stderr:
      '/proc/self/fd/22:1:17-18: Error: No such file or directory; did you mean table ‘foo’ in family ip?\ndelete table ip fo\n                ^^\n',
    expected: 'ENOENT',
  },
  {
    claim: 'something that exists',
    stderr:
      '/proc/self/fd/22:1:19-19: Error: Could not process rule: File exists\ncreate table inet t\n                  ^\n',
    expected: 'EEXIST',
  },
  {
    claim: 'something in use',
    stderr:
      '/proc/self/fd/22:1:21-21: Error: Could not process rule: Device or resource busy\ndelete chain inet t c\n                    ^\n',
    expected: 'EBUSY',
  },
  {
    claim: 'ranges that overlap',
    stderr:
      '/proc/self/fd/22:1:24-41: Error: interval overlaps with an existing one\nadd element inet t w { 10.0.0.5-10.0.0.20 }\n                       ^^^^^^^^^^^^^^^^^^\n',
    expected: 'EEXIST',
  },
  {
    claim: 'grammar',
    stderr: '/proc/self/fd/22:1:8-8: Error: syntax error, unexpected newline\nfoo bar\n       ^\n',
    expected: 'SYNTAX',
  },
  {
    claim: 'meaning',
    stderr:
      '/proc/self/fd/22:3:29-33: Error: Service out of range\nadd rule inet t c tcp dport 99999 accept\n                            ^^^^^\n',
    expected: 'SYNTAX',
  },
  {
    claim: 'a conflict that underlines two places',
    stderr:
      '/proc/self/fd/22:1:26-31: Error: Statement after terminal statement has no effect\nadd rule inet t c accept accept\n                  ~~~~~~ ^^^^^^\n',
    expected: 'SYNTAX',
  },
  {
    claim: 'no privilege',
    stderr: 'netlink: Error: cache initialization failed: Operation not permitted\n',
    expected: 'EPERM',
  },
  {
    claim: 'a transaction too large for the socket',
    stderr: 'netlink: Error: Could not process rule: Message too long\n',
    expected: 'EMSGSIZE',
  },
  { claim: 'nothing at all', stderr: '', expected: 'UNKNOWN' },
  { claim: 'something new', stderr: 'BUG: oh no\n', expected: 'UNKNOWN' },
];

describe('toTextError', () => {
  for (const { claim, stderr, expected } of cases)
    it(`classifies ${claim}`, () => assert.equal(toTextError(stderr, table).code, expected));

  it('keeps all further errors, and leaves out warnings', () => {
    const stderr =
      '/proc/self/fd/22:1:1-3: Warning: deprecated\nfoo\n^^^\n' +
      '/proc/self/fd/22:1:61-63: Error: syntax error, unexpected string\nadd\n^^^\n' +
      '/proc/self/fd/22:2:16-16: Error: No such file or directory\nadd\n ^\n';
    const error = toTextError(stderr, table);
    assert.equal(error.message, 'syntax error, unexpected string');
    assert.deepEqual(
      error.all.map(({ code }) => code),
      ['SYNTAX', 'ENOENT'],
    );
  });
});
