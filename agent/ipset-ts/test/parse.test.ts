import assert from 'node:assert/strict';
import { parseList, parseSave } from '../lib/index.ts';

/** Nothing that is written here has such names and comments; ipset takes them from others. */
const SAVED = `create "a hash:ip family inet hashsize 64 maxelem 5 comment bucketsize 12 initval 0x0000000f
add "a 192.0.2.1 comment "one
add two"
add "a 192.0.2.3 comment " x  y "
create two  words list:set size 8
add two  words "a
`;
const LISTED = `Name: "a
Type: hash:ip
Revision: 6
Header: family inet hashsize 64 maxelem 5 comment bucketsize 12 initval 0x0000000f
Size in memory: 296
References: 1
Number of entries: 2
Members:
192.0.2.1 comment "one
add two"
192.0.2.3 comment " x  y "

Name: two  words
Type: list:set
Revision: 3
Header: size 8
Size in memory: 80
References: 0
Number of entries: 1
Members:
"a
`;

const first = {
  name: '"a',
  type: 'hash:ip',
  family: 'inet',
  hashsize: 64,
  maxelem: 5,
  comment: true,
  bucketsize: 12,
  initval: 15,
  entries: [
    { ip: '192.0.2.1', comment: 'one\nadd two' },
    { ip: '192.0.2.3', comment: ' x  y ' },
  ],
};
const second = { name: 'two  words', type: 'list:set', size: 8, entries: [{ set: '"a' }] };

describe('output of ipset', () => {
  it('is parsed from save', () => {
    assert.deepEqual(parseSave(SAVED), [first, second]);
    assert.deepEqual(parseSave(''), []);
  });

  it('is parsed from list, with fields that save lacks', () => {
    assert.deepEqual(parseList(LISTED), [
      { ...first, revision: 6, memory: 296, references: 1, entryCount: 2 },
      { ...second, revision: 3, memory: 80, references: 0, entryCount: 1 },
    ]);
  });

  it('is parsed from list without members', () => {
    const terse = LISTED.replaceAll(/Members:\n(?:.+\n)*/g, '');
    assert.deepEqual(
      parseList(terse).map(({ entries, entryCount }) => [entries, entryCount]),
      [
        [[], 2],
        [[], 1],
      ],
    );
  });
});
