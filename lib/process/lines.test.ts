import assert from 'node:assert/strict';
import fc from 'fast-check';
import { check } from '../../test/properties/runs.ts';
import { lines } from './lines.ts';

describe('lines', () => {
  it('are the same whatever the chunks', function () {
    const texts = fc.array(fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll('\n', '')));
    check(this, 200, fc.record({ texts, cuts: fc.array(fc.nat(50)) }), ({ texts: wanted, cuts }) => {
      const bytes = Buffer.from(wanted.map((text) => `${text}\n`).join(''));
      const found: string[] = [];
      const take = lines(1000, (line) => found.push(line));
      let at = 0;
      for (const cut of cuts) {
        take(bytes.subarray(at, at + cut));
        at = Math.min(bytes.length, at + cut);
      }
      take(bytes.subarray(at));
      assert.deepEqual(found, wanted);
    });
  });

  it('that are too long are rejected before they are complete', () => {
    const take = lines(10, () => assert.fail('no line'));
    take(Buffer.from('0123456789'));
    assert.throws(() => take(Buffer.from('a')), /more than 10 bytes/);
    assert.throws(() => lines(10, () => {})(Buffer.from('0123456789a\n')), /more than 10 bytes/);
  });
});
