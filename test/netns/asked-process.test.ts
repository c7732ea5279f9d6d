import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { AskedProcess } from './asked-process.ts';

/** Answers with the text, later requests first; ends at the third one. */
const PROGRAM = `
const asked = [];
console.log(JSON.stringify({ text: 'begun' }));
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  asked.unshift(JSON.parse(line));
  if (asked.length === 2) for (const one of asked) console.log(JSON.stringify(one));
  if (asked.length === 3) { console.error('no more'); process.exit(1); }
});`;

interface Text {
  readonly text: string;
}

describe('a process that is asked', () => {
  it('has each answer for its own request, tells all else, and its end refuses the rest', async () => {
    const child = spawn(process.execPath, ['-e', PROGRAM]);
    const others: Text[] = [];
    const asked = new AskedProcess<Text, Text>(child, (other) => others.push(other));
    const both = await Promise.all([asked.ask({ text: 'a' }), asked.ask({ text: 'b' })]);
    assert.deepEqual(
      both.map(({ text }) => text),
      ['a', 'b'],
    );
    assert.deepEqual(others, [{ text: 'begun' }]);
    const ended = once(child, 'close');
    await assert.rejects(asked.ask({ text: 'c' }), /the process has ended: no more/);
    await ended;
    assert.equal(asked.log, 'no more\n');
  });
});
