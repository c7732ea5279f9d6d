import assert from 'node:assert/strict';
import { EarlyDrops } from './lease-thread.ts';

const X = { address: '198.51.100.1', announce: 'L2' } as const;

/** A kernel whose calls end when the test says so. */
function kernel() {
  const calls: string[] = [];
  const pending: (() => void)[] = [];
  const call = (name: string): Promise<void> => {
    calls.push(name);
    return new Promise((resolve) => pending.push(resolve));
  };
  const drops = new EarlyDrops({
    assign: () => call('take').then(() => []),
    drop: (addresses) => call(`drop ${addresses.join()}`),
  });
  return { calls, drops, end: () => pending.shift()?.() };
}

describe('EarlyDrops', () => {
  it('an address that was dropped early is not dropped again', async () => {
    const { calls, drops, end } = kernel();
    drops.begin(new Set([X.address]));
    const dropped = drops.drop([X.address]);
    end();
    await dropped;
    assert.deepEqual(calls, ['drop 198.51.100.1']);
  });

  it('a drop that began while the address was taken is made again: it may have come before', async () => {
    const { calls, drops, end } = kernel();
    const taken = drops.assign([X], () => 1);
    await null;
    await null;
    assert.deepEqual(calls, ['take']);
    drops.begin(new Set([X.address]));
    end();
    end();
    await taken;
    const dropped = drops.drop([X.address]);
    await new Promise(setImmediate);
    end();
    await dropped;
    assert.deepEqual(calls, ['take', 'drop 198.51.100.1', 'drop 198.51.100.1']);
  });

  it('an address is taken when it has been dropped', async () => {
    const { calls, drops, end } = kernel();
    drops.begin(new Set([X.address]));
    const taken = drops.assign([X], () => 1);
    await new Promise(setImmediate);
    assert.deepEqual(calls, ['drop 198.51.100.1']);
    end();
    await new Promise(setImmediate);
    assert.deepEqual(calls, ['drop 198.51.100.1', 'take']);
    end();
    assert.deepEqual(await taken, []);
  });
});
