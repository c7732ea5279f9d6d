import assert from 'node:assert/strict';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { NameSaver } from './saved-names.ts';

describe('NameSaver', () => {
  it('writes what there is when it is closed, and waits for nothing then', async () => {
    const clock = fakeClock();
    const logged: string[] = [];
    const file = {
      read: async () => null,
      write: async () => {
        throw new Error('no space');
      },
    };
    const say = (message: string) => void logged.push(message);
    const log = { info: say, warn: say, error: say };
    const saver = new NameSaver({ file, clock, log, text: () => '' });
    saver.request('seen');
    await saver.close();
    saver.request('changed');
    assert.deepEqual(clock.waiting(), []);
    assert.equal(logged.length, 1);
  });
});
