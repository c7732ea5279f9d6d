import assert from 'node:assert/strict';
import type { Log } from '../../../lib/process/log.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { ArpSilence } from './arp-keeper.ts';

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

  it('tries nothing again once it is closed, not even what fails just then', async () => {
    const clock = fakeClock();
    const failing = Promise.withResolvers<never>();
    const silence = new ArpSilence({
      clock,
      log: { error() {} } as unknown as Log,
      keeper: { apply: () => failing.promise, verify: async () => false },
    });
    const applied = silence.apply(null);
    silence.close();
    failing.reject(new Error('no memory'));
    await applied;
    assert.deepEqual(clock.waiting(), []);
  });
});
