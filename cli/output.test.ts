import assert from 'node:assert/strict';
import { EXIT } from '../lib/process/exit.ts';
import { watched } from './output.ts';

describe('watched', () => {
  it('looks once without --watch, and gives the status', async () => {
    let looks = 0;
    const status = await watched(false, async () => {
      looks++;
      return EXIT.invalid;
    });
    assert.deepEqual([looks, status], [1, EXIT.invalid]);
  });

  it('looks again until a look fails, and clears a terminal alone', async () => {
    const { write, isTTY } = process.stdout;
    for (const [terminal, before] of [
      [true, '\u001b[H\u001b[J'],
      [false, ''],
    ] as const) {
      const printed: string[] = [];
      process.stdout.isTTY = terminal;
      process.stdout.write = ((text: string, done: () => void) => {
        printed.push(text);
        done();
        return true;
      }) as typeof write;
      try {
        await assert.rejects(
          watched(true, async (show) => {
            if (printed.length === 2) throw new Error('away');
            await show('x\n');
            return EXIT.done;
          }),
          /away/,
        );
      } finally {
        process.stdout.write = write;
        process.stdout.isTTY = isTTY;
      }
      assert.deepEqual(printed, [`${before}x\n`, `${before}x\n`]);
    }
  }).timeout(20_000);
});
