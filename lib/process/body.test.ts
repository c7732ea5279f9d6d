import assert from 'node:assert/strict';
import { readBody } from './body.ts';

async function* chunks(...texts: readonly string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text);
}

describe('readBody', () => {
  it('gives all bytes, up to the limit', async () => {
    assert.equal(String(await readBody(chunks('ab', '', 'cd'), 4)), 'abcd');
    assert.equal(await readBody(chunks('ab', 'cde', 'f'), 4), null);
    assert.equal(String(await readBody(chunks(), 0)), '');
  });

  it('stops at a chunk that the caller refuses', async () => {
    const seen: number[] = [];
    const accept = ({ length }: Buffer): boolean => seen.push(length) < 2;
    assert.equal(await readBody(chunks('a', 'bc', 'd'), 10, accept), null);
    assert.deepEqual(seen, [1, 2]);
  });
});
