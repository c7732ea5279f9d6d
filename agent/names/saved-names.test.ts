import assert from 'node:assert/strict';
import { parseNamesText, type SavedName, toNamesText } from './saved-names.ts';

const NAME: SavedName = {
  name: 'a.test',
  failing: null,
  addresses: [{ address: '192.0.2.1', source: 'learnt', seen: 1000.4, expires: 31_000, state: 'fresh' }],
};

describe('names.jsonl', () => {
  it('is read back as it was written, with wall-clock times', () => {
    const text = toNamesText(
      [NAME, { ...NAME, name: 'b.test', failing: 'ETIMEOUT' }],
      2000,
      1_700_000_000_000,
    );
    const { saved, names } = parseNamesText(text);
    assert.equal(saved, 1_700_000_002_000);
    assert.deepEqual(
      names.map(({ name, failing }) => [name, failing]),
      [
        ['a.test', null],
        ['b.test', 'ETIMEOUT'],
      ],
    );
    assert.equal(names[0]?.addresses[0]?.seen, 1_700_000_001_000);
    assert.equal(names[0]?.addresses[0]?.expires, 1_700_000_031_000);
  });

  it('leaves out invalid lines', () => {
    const [good] = NAME.addresses;
    const wrong: unknown[] = [
      null,
      7,
      [],
      { name: 'a' },
      { ...NAME, failing: 7 },
      { ...NAME, addresses: {} },
      { ...NAME, addresses: [{ ...good, seen: 'yesterday' }] },
      { ...NAME, addresses: [{ ...good, source: 'guessed' }] },
      { ...NAME, addresses: [{ ...good, state: 'rotten' }] },
    ];
    const text = [{ saved: 'now' }, ...wrong, NAME].map((line) => JSON.stringify(line)).join('\n');
    const { saved, names } = parseNamesText(text);
    assert.deepEqual([saved, names.length], [0, 1]);
    assert.deepEqual(parseNamesText(''), { saved: 0, names: [] });
  });
});
