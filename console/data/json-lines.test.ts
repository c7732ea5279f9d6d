import assert from 'node:assert/strict';
import { linesOf } from './json-lines.ts';

async function lines(chunks: readonly Uint8Array[], longest?: number): Promise<string[]> {
  const stream = ReadableStream.from(chunks) as ReadableStream<Uint8Array>;
  return await Array.fromAsync(linesOf(stream, longest));
}

describe('lines of a stream', () => {
  it('are the same wherever it is cut, inside characters too', async () => {
    const bytes = Buffer.from('{"a":"é"}\n\n{"b":"🧱"}\nrest');
    for (let size = 1; size <= bytes.length; size++) {
      const chunks: Uint8Array[] = [];
      for (let i = 0; i < bytes.length; i += size) chunks.push(bytes.subarray(i, i + size));
      assert.deepEqual(await lines(chunks), ['{"a":"é"}', '', '{"b":"🧱"}'], `chunks of ${size}`);
    }
  });

  it('are bounded', async () => {
    await assert.rejects(lines([Buffer.from('aaa'), Buffer.from('aaa')], 5), /longer than 5/);
    assert.deepEqual(await lines([Buffer.from('aaa\naa'), Buffer.from('aa\n')], 5), ['aaa', 'aaaa']);
  });

  it('are UTF-8', async () => {
    await assert.rejects(lines([Buffer.from([0xff, 10])]), TypeError);
  });
});
