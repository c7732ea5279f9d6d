import assert from 'node:assert/strict';
import { loadBinding } from '../lib/binding.ts';
import { toErrnoTable } from '../lib/errors.ts';
import { toTextError } from '../lib/nftables.ts';

const table = toErrnoTable(loadBinding().errors);

interface Case {
  claim: string;
  text: string;
  stderr: string;
  expected: [code: string, line: number | null, column: number | null, refersTo: string | null];
}

// Captured from libnftables 1.0.6, but for the last ones, which are made up.
const cases: Case[] = [
  {
    claim: 'a chain that is not there',
    text: 'add table inet q\n\tadd rule inet q zz accept',
    stderr:
      '/proc/self/fd/22:2:18-19: Error: Could not process rule: No such file or directory\n\tadd rule inet q zz accept\n\t                ^^\n',
    expected: ['ENOENT', 2, 18, 'zz'],
  },
  {
    claim: 'a table that is not there, found by libnftables itself',
    text: 'list table ip none',
    stderr:
      '/proc/self/fd/22:1:15-18: Error: No such file or directory\nlist table ip none\n              ^^^^\n',
    expected: ['ENOENT', 1, 15, 'none'],
  },
  {
    claim: 'a near miss with a hint',
    text: 'delete table ip fo',
    stderr:
      '/proc/self/fd/22:1:17-18: Error: No such file or directory; did you mean table ‘foo’ in family ip?\ndelete table ip fo\n                ^^\n',
    expected: ['ENOENT', 1, 17, 'fo'],
  },
  {
    claim: 'something that exists',
    text: 'create table inet t',
    stderr:
      '/proc/self/fd/22:1:19-19: Error: Could not process rule: File exists\ncreate table inet t\n                  ^\n',
    expected: ['EEXIST', 1, 19, 't'],
  },
  {
    claim: 'something in use',
    text: 'delete chain inet t c',
    stderr:
      '/proc/self/fd/22:1:21-21: Error: Could not process rule: Device or resource busy\ndelete chain inet t c\n                    ^\n',
    expected: ['EBUSY', 1, 21, 'c'],
  },
  {
    claim: 'ranges that overlap',
    text: 'add element inet t w { 10.0.0.5-10.0.0.20 }',
    stderr:
      '/proc/self/fd/22:1:24-41: Error: interval overlaps with an existing one\nadd element inet t w { 10.0.0.5-10.0.0.20 }\n                       ^^^^^^^^^^^^^^^^^^\n',
    expected: ['EEXIST', 1, 24, '10.0.0.5-10.0.0.20'],
  },
  {
    claim: 'grammar',
    text: 'foo bar',
    stderr: '/proc/self/fd/22:1:8-8: Error: syntax error, unexpected newline\nfoo bar\n       ^\n',
    expected: ['SYNTAX', 1, 8, null],
  },
  {
    claim: 'meaning',
    text: '\n\nadd rule inet t c tcp dport 99999 accept',
    stderr:
      '/proc/self/fd/22:3:29-33: Error: Service out of range\nadd rule inet t c tcp dport 99999 accept\n                            ^^^^^\n',
    expected: ['SYNTAX', 3, 29, '99999'],
  },
  {
    claim: 'a conflict that underlines two places',
    text: 'add rule inet t c accept accept',
    stderr:
      '/proc/self/fd/22:1:26-31: Error: Statement after terminal statement has no effect\nadd rule inet t c accept accept\n                  ~~~~~~ ^^^^^^\n',
    expected: ['SYNTAX', 1, 26, 'accept'],
  },
  {
    claim: 'no privilege',
    text: 'list tables',
    stderr: 'netlink: Error: cache initialization failed: Operation not permitted\n',
    expected: ['EPERM', null, null, null],
  },
  {
    claim: 'a transaction too large for the socket',
    text: 'add table ip t',
    stderr: 'netlink: Error: Could not process rule: Message too long\n',
    expected: ['EMSGSIZE', null, null, null],
  },
  { claim: 'nothing at all', text: 'x', stderr: '', expected: ['UNKNOWN', null, null, null] },
  { claim: 'something new', text: 'x', stderr: 'BUG: oh no\n', expected: ['UNKNOWN', null, null, null] },
];

describe('toTextError', () => {
  for (const { claim, text, stderr, expected } of cases) {
    it(`locates and classifies ${claim}`, () => {
      const error = toTextError(stderr, text, table);
      assert.deepEqual([error.code, error.line, error.column, error.refersTo], expected);
      assert.equal(error.stderr, stderr);
      assert.equal(error.command, expected[1] === null ? null : text.split('\n')[expected[1] - 1]);
      assert.equal(
        error.errno === null,
        ['SYNTAX', 'UNKNOWN'].includes(error.code) || stderr.includes('overlaps'),
      );
    });
  }

  it('keeps all further errors, and leaves out warnings', () => {
    const stderr =
      '/proc/self/fd/22:1:1-3: Warning: deprecated\nfoo\n^^^\n' +
      '/proc/self/fd/22:1:61-63: Error: syntax error, unexpected string\nadd\n^^^\n' +
      '/proc/self/fd/22:2:16-16: Error: No such file or directory\nadd\n ^\n';
    const error = toTextError(stderr, 'a\nb', table);
    assert.deepEqual(
      error.all.map(({ code, line }) => [code, line]),
      [
        ['SYNTAX', 1],
        ['ENOENT', 2],
      ],
    );
  });
});
