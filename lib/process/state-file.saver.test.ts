import assert from 'node:assert/strict';
import { mock } from 'node:test';
import type { Log } from './log.ts';
import { Saver } from './state-file.ts';

describe('Saver', () => {
  let logged: string[];
  let written: string[];
  /** How many writes fail. */
  let failures: number;
  beforeEach(() => {
    logged = [];
    written = [];
    failures = 0;
    mock.timers.enable({ apis: ['setTimeout'] });
  });
  afterEach(() => mock.timers.reset());

  function saver(): Saver<string> {
    const log = { error: (message: string) => void logged.push(message) } as unknown as Log;
    const write = async (text: string): Promise<void> => {
      if (failures-- > 0) throw new Error('no space');
      written.push(text);
    };
    return new Saver({ read: async () => null, write }, (value: string) => value, log);
  }

  it('tries again what could not be written', async () => {
    const one = saver();
    failures = 1;
    one.save('a');
    await one.flush();
    mock.timers.tick(10_000);
    await new Promise(setImmediate);
    assert.deepEqual(written, ['a']);
    assert.match(logged.join(), /^cannot write a state file; enforcement continues, trying again$/);
  });

  it('writes once more when it is closed, if a write fails just then', async () => {
    const one = saver();
    failures = 1;
    one.save('a');
    void one.flush();
    await one.close();
    assert.deepEqual(written, ['a']);
  });

  it('writes nothing any more once it is closed: the next one may have written newer values', async () => {
    const one = saver();
    failures = 1;
    one.save('old');
    await one.close();
    const next = saver();
    next.save('new');
    await next.flush();
    one.save('late');
    mock.timers.tick(60_000);
    await one.flush();
    assert.deepEqual(written, ['new']);
    assert.match(logged.join(), /^cannot write a state file; enforcement continues$/);
  });
});
