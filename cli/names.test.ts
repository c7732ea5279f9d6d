import assert from 'node:assert/strict';
import { CommandError } from '../lib/process/exit.ts';
import { loadNames, parseNames } from './names.ts';

/** The problems of each text, line by line. */
const WRONG: readonly (readonly [text: string, ...problems: RegExp[]])[] = [
  ['www.example.com: 192.0.2.7', /^f:1: must be a list of addresses, as in .*; not "192\.0\.2\.7"$/],
  ['www.example.com:', /^f:1: must be a list of addresses, .*; not null/],
  ['- www.example.com', /^f:1: must be names with their addresses, as in .*; not a list$/],
  ['just text', /^f:1: must be names with their addresses, .*; not "just text"$/],
  [
    '\na.example: [192.0.2.300]\nb.example:\n  - 192.0.2.0/24\n  - 7\n',
    /^f:2: "192\.0\.2\.300" is not a valid IP address$/,
    /^f:4: "192\.0\.2\.0\/24" is not a valid IP address$/,
    /^f:5: 7 is not a valid IP address$/,
  ],
  ['a.example: []\nA.Example.: []', /^f:2: the name a\.example occurs twice$/],
  ['a.example: []\na.example: []', /^f:2: .*twice/],
  ['a.*.example: []', /^f:1: "a\.\*\.example"/],
  ['192.0.2.7: []', /^f:1: "192\.0\.2\.7" is an address, not a name/],
  ['a: [', /^f:\d: is not valid YAML/],
];

describe('the file of --names', () => {
  it('maps names to addresses, in any spelling', () => {
    const table = parseNames(
      'WWW.Example.com.: ["2001:DB8:0::1", 192.0.2.7, 192.0.2.7]\n"*.example.com": [192.0.2.8]\n',
      'f',
    );
    assert.deepEqual(table.addresses('www.example.com'), ['192.0.2.7', '2001:db8::1']);
    assert.deepEqual(table.addresses('*.example.com'), ['192.0.2.7', '192.0.2.8', '2001:db8::1']);
    assert.deepEqual(table.addresses('api.example.com'), []);
  });

  it('may be empty', () => {
    for (const text of ['', '# nothing yet\n', '{}', '\ufeff']) {
      assert.deepEqual(parseNames(text, 'f').addresses('www.example.com'), []);
    }
  });

  for (const [text, ...problems] of WRONG) {
    it(`is refused: ${JSON.stringify(text)}`, () => {
      assert.throws(
        () => parseNames(text, 'f'),
        (error) => {
          assert.ok(error instanceof CommandError && error.status === 1);
          const [first, ...lines] = error.message.split('\n');
          assert.equal(first, 'the names are not valid:');
          assert.equal(lines.length, problems.length, error.message);
          for (const [i, problem] of problems.entries()) assert.match(lines[i] ?? '', problem);
          return true;
        },
      );
    });
  }

  it('is named in the error if it is missing', async () => {
    await assert.rejects(
      loadNames('/no/such/file'),
      (error) =>
        error instanceof CommandError &&
        error.status === 1 &&
        /^--names: .*\/no\/such\/file/.test(error.message),
    );
  });
});
