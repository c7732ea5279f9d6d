import assert from 'node:assert/strict';
import type { Log } from '../../../lib/process/log.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { ArpSilence } from './arp-silence.ts';

describe('ArpSilence', () => {
  it('tries a failure again, and says it once', async () => {
    const clock = fakeClock();
    const logged: string[] = [];
    let failure: Error | null = new Error('no memory');
    let tries = 0;
    const silence = new ArpSilence({
      clock,
      log: { error: (message: string) => void logged.push(message) } as unknown as Log,
      keeper: {
        async apply() {
          tries++;
          if (failure !== null) throw failure;
          return true;
        },
        verify: async () => false,
      },
    });
    await silence.apply({ singles: Uint8Array.of(192, 0, 2, 50), prefixes: [] });
    assert.equal(silence.problem, failure);
    clock.pass(10_000);
    await silence.verify();
    assert.deepEqual([tries, logged.length], [2, 1]);
    failure = null;
    clock.pass(10_000);
    await silence.verify();
    assert.deepEqual([tries, silence.problem], [3, null]);
    assert.deepEqual(clock.waiting(), []);
  });
});
