import assert from 'node:assert/strict';
import { type NamedStep, Steps } from './lifecycle.ts';

describe('Steps', () => {
  const said: string[] = [];
  const step = (name: string, start?: () => Promise<void>): NamedStep => ({
    name,
    start: async () => {
      said.push(`start ${name}`);
      await start?.();
      said.push(`${name} started`);
    },
    stop: async () => {
      said.push(`stop ${name}`);
      await Promise.resolve();
      said.push(`${name} stopped`);
    },
  });
  beforeEach(() => said.splice(0));

  it('starts in order and stops in reverse, one after the other', async () => {
    const steps = new Steps([step('a'), { name: 'neither' }, step('b')]);
    await steps.start();
    assert.deepEqual(said.splice(0), ['start a', 'a started', 'start b', 'b started']);
    await steps.stop();
    assert.deepEqual(said, ['stop b', 'b stopped', 'stop a', 'a stopped']);
  });

  it('starts nothing after a failed step, and stops all', async () => {
    const steps = new Steps([step('a', () => Promise.reject(new Error('no a'))), step('b')]);
    await assert.rejects(steps.start(), /no a/);
    await steps.stop();
    assert.deepEqual(said, ['start a', 'stop b', 'b stopped', 'stop a', 'a stopped']);
  });

  it('starts nothing after stop', async () => {
    const slow = Promise.withResolvers<void>();
    const steps = new Steps([step('a', () => slow.promise), step('b')]);
    const started = steps.start();
    await steps.stop();
    slow.resolve();
    await started;
    assert.deepEqual(said, ['start a', 'stop b', 'b stopped', 'stop a', 'a stopped', 'a started']);
  });
});
