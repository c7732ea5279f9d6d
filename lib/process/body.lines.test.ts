import assert from 'node:assert/strict';
import fc from 'fast-check';
import { check } from '../../test/properties/runs.ts';
import { LineSplitter } from './body.ts';

const splitAt = (bytes: Buffer, cuts: readonly number[], splitter: LineSplitter): string[] => {
  const found: string[] = [];
  let at = 0;
  for (const cut of [...cuts, bytes.length]) {
    found.push(...splitter.push(bytes.subarray(at, at + cut)));
    at = Math.min(bytes.length, at + cut);
  }
  splitter.end();
  return found;
};

describe('lines', () => {
  it('are the same whatever the chunks', function () {
    // Characters of one to four bytes. fast-check's own unit of all makes a table of them first.
    const unit = fc
      .oneof(fc.nat(0xff), fc.nat(0xd7ff), fc.integer({ min: 0xe000, max: 0x10ffff }))
      .map((code) => String.fromCodePoint(code));
    const texts = fc.array(fc.string({ unit }).map((text) => text.replaceAll('\n', '·')));
    check(this, 200, fc.record({ texts, cuts: fc.array(fc.nat(50)) }), ({ texts: wanted, cuts }) => {
      const bytes = Buffer.from(wanted.map((text) => `${text}\n`).join(''));
      assert.deepEqual(splitAt(bytes, cuts, new LineSplitter(1000)), wanted);
    });
  });

  it('that are too long are rejected before they are complete', () => {
    const tooLong = { name: 'LineError', message: 'a line is longer than 10 bytes' };
    const splitter = new LineSplitter(10);
    assert.deepEqual([...splitter.push(Buffer.from('0123456789'))], []);
    assert.throws(() => [...splitter.push(Buffer.from('a'))], tooLong);
    assert.throws(() => [...new LineSplitter(10).push(Buffer.from('0123456789a\n'))], tooLong);
  });

  it('refuses what is cut off, endless or no text', () => {
    const splitter = new LineSplitter(10);
    assert.deepEqual([...splitter.push(Buffer.from('whole\nhal'))], ['whole']);
    assert.throws(() => splitter.end(), { name: 'LineError' });
    assert.throws(() => [...splitter.push(Buffer.from('f and more of it'))], { name: 'LineError' });
    const notText = Buffer.from([0x22, 0xff, 0x22, 0x0a]);
    assert.throws(() => [...new LineSplitter(10).push(notText)], { message: 'a line is not UTF-8' });
  });

  it('gives the lines before the one that it refuses', () => {
    const found: string[] = [];
    const bytes = Buffer.from('one\ntwo\nendless');
    assert.throws(() => {
      for (const line of new LineSplitter(5).push(bytes)) found.push(line);
    });
    assert.deepEqual(found, ['one', 'two']);
  });
});
