import assert from 'node:assert/strict';
import { createLog } from './log.ts';

describe('the log', () => {
  const LOOK = String.raw`\u007f\u009b2J\u202e\u2028\n\u001b[2J`;
  const steering = JSON.parse(`"${LOOK}"`) as string;

  /** Captures the text written to standard error. */
  async function written(logFormat: 'json' | 'text'): Promise<string> {
    const { write } = process.stderr;
    let text = '';
    process.stderr.write = ((part: unknown) => {
      text += String(part);
      return true;
    }) as typeof write;
    try {
      const log = createLog({ logFormat, logLevel: 'info' });
      log.info(`said ${steering}`, { path: `/${steering}` });
      await new Promise(setImmediate);
    } finally {
      process.stderr.write = write;
    }
    return text;
  }

  it('escapes control characters, and writes each entry as one line', async () => {
    const text = await written('text');
    assert.match(text, /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+\n$/u);
    assert.ok(text.includes(`path="/${LOOK}"`), text);
    const json = await written('json');
    assert.match(json, /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+\n$/u);
    const { message, path, level } = JSON.parse(json) as Record<string, string>;
    assert.deepEqual([message, path, level], [`said ${steering}`, `/${steering}`, 'info']);
  });
});
