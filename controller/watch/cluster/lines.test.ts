import assert from 'node:assert/strict';
import fc from 'fast-check';
import { lineSplitter } from './lines.ts';

describe('lineSplitter', () => {
  it('returns the lines, wherever the chunks end', () => {
    const text = fc.array(
      fc.string({ unit: 'binary', maxLength: 20 }).map((line) => line.replaceAll('\n', '·')),
    );
    fc.assert(
      fc.property(text, fc.array(fc.nat(50)), (lines, cuts) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
        const splitter = lineSplitter();
        const found: string[] = [];
        let from = 0;
        for (const cut of [...cuts, bytes.length]) {
          found.push(...splitter.push(bytes.subarray(from, from + cut)));
          from += cut;
        }
        splitter.end();
        assert.deepEqual(found, lines);
      }),
    );
  });

  it('rejects lines that are cut off, too long or not UTF-8', () => {
    const splitter = lineSplitter(10);
    assert.deepEqual(splitter.push(Buffer.from('whole\nhal')), ['whole']);
    assert.throws(() => splitter.end(), { reason: 'malformed' });
    assert.throws(() => splitter.push(Buffer.from('f and more of it')), { reason: 'malformed' });
    assert.throws(() => lineSplitter().push(Buffer.from([0x22, 0xff, 0x22, 0x0a])), { reason: 'malformed' });
  });
});
