import assert from 'node:assert/strict';
import { toIpsetError } from '../lib/errors.ts';
import { type Exec, Ipset } from '../lib/index.ts';

/**
 * Errors of ipset 7.17, as measured; and the texts of its library that this kernel does not give.
 */
const TEXTS = [
  ['NOT_FOUND', 'The set with the given name does not exist'],
  ['NOT_FOUND', 'Sets cannot be swapped: the second set does not exist'],
  ['EXISTS', 'Set cannot be created: set with the same name already exists'],
  ['ENTRY_EXISTS', "Element cannot be added to the set: it's already added"],
  ['NO_ENTRY', "Element cannot be deleted from the set: it's not added"],
  ['FULL', 'Hash is full, cannot add more elements'],
  ['IN_USE', 'Set cannot be destroyed: it is in use by a kernel component'],
  ['TYPE_MISMATCH', 'The sets cannot be swapped: their type does not match'],
  ['NOT_ENABLED', 'Timeout cannot be used: set was created without timeout support'],
  ['OUT_OF_RANGE', 'Null-valued element, cannot be stored in a hash type of set'],
  ['NAME_TOO_LONG', "Syntax error: setname 'x' is longer than 31 characters"],
  ['SYNTAX', "Syntax error: '33' is out of range 0-32"],
  ['SYNTAX', "Unknown argument: `netmask'\nTry `ipset help' for more information."],
  ['NOT_PERMITTED', 'Kernel error received: Operation not permitted'],
  ['NO_KERNEL_SUPPORT', 'Kernel error received: set type not supported'],
  ['UNKNOWN', 'Kernel error received: Cannot allocate memory'],
] as const;

describe('errors', () => {
  for (const [code, text] of TEXTS) {
    it(`${code}: ${text.split('\n')[0]}`, () => {
      const error = toIpsetError(['-exist', 'restore'], 1, `ipset v7.17: Error in line 7: ${text}\n`);
      assert.deepEqual([error.code, error.operation], [code, 6]);
      assert.match(error.stderr, /^ipset v7.17: Error in line 7: /);
      assert.match(error.message, /^ipset restore: [^\n]+ \(.+\)$/);
    });
  }

  it('have no operation if ipset names no line', () => {
    const error = toIpsetError(
      ['flush', 'a'],
      1,
      'ipset v7.17: The set with the given name does not exist\n',
    );
    assert.equal(error.operation, null);
    const silent = toIpsetError(['flush', 'a'], null, '');
    assert.match(silent.message, /exit code null/);
  });

  it('of an Exec that are not ExecErrors are passed on unchanged', async () => {
    const broken: Exec = () => Promise.reject(new RangeError('mine'));
    await assert.rejects(new Ipset(broken).names(), RangeError);
  });

  it('are raised for output that cannot be parsed', async () => {
    for (const stdout of ['bogus\n', 'add a 1\n', 'create a hash:ip\nadd b 1\n']) {
      const exec: Exec = async () => ({ code: 0, stdout, stderr: '' });
      await assert.rejects(new Ipset(exec).save(), { code: 'UNKNOWN' }, stdout);
    }
  });
});
