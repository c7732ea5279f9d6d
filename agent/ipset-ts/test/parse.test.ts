import assert from 'node:assert/strict';
import { parseSave } from '../lib/index.ts';

/** With what others made: names with quotes and blanks, comments of several lines, other types. */
const SAVED = `create "a hash:ip family inet hashsize 64 maxelem 5 comment bucketsize 12 initval 0x0000000f
add "a 192.0.2.1 comment "one
add two"
add "a 192.0.2.3 comment " x  y "
create two  words list:set size 8
add two  words "a
create six hash:ip,port family inet6 hashsize 64 maxelem 9 timeout 30 bucketsize 12 initval 0x0000000f
add six 2001:db8::1,tcp:443 timeout 12
create odd hash:odd
`;

describe('output of ipset', () => {
  it('is parsed from save, whoever made the sets', () => {
    assert.deepEqual(parseSave(SAVED), [
      {
        name: '"a',
        type: 'hash:ip',
        family: 'inet',
        maxelem: 5,
        timeout: null,
        entries: ['192.0.2.1 comment "one add two"', '192.0.2.3 comment " x  y "'],
      },
      { name: 'two', type: '', family: 'inet', maxelem: null, timeout: null, entries: [' words "a'] },
      {
        name: 'six',
        type: 'hash:ip,port',
        family: 'inet6',
        maxelem: 9,
        timeout: 30,
        entries: ['2001:db8::1,tcp:443 timeout 12'],
      },
      { name: 'odd', type: 'hash:odd', family: 'inet', maxelem: null, timeout: null, entries: [] },
    ]);
    assert.deepEqual(parseSave(''), []);
  });
});
