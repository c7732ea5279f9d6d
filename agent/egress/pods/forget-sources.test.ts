import assert from 'node:assert/strict';
import type { ConntrackEntry } from 'nftables-napi';
import { ForgetQueue, forgetSources } from './forget-sources.ts';

describe('connections of addresses that pods had', () => {
  it('at a gateway are those that it took', async () => {
    const entry = (mark: number, last: number) =>
      ({ mark, original: { source: Uint8Array.of(10, 0, 0, last) } }) as ConntrackEntry;
    const entries = [entry(0, 1), entry(0x41000000, 1), entry(0x41000000, 2)];
    const deleted: ConntrackEntry[] = [];
    const conntrack = {
      async *entries() {
        yield entries;
      },
      async delete(some: readonly ConntrackEntry[]) {
        deleted.push(...some);
        return [];
      },
    };
    await forgetSources(conntrack, new Set(['10.0.0.1']), 'taken');
    assert.deepEqual(deleted.splice(0), [entries[1]]);
    await forgetSources(conntrack, new Set(['10.0.0.1']), 'all');
    assert.deepEqual(deleted, entries.slice(0, 2));
  });

  it('are looked for by one pass at a time, for all that came meanwhile', async () => {
    const passes: string[] = [];
    const pending: (() => void)[] = [];
    const queue = new ForgetQueue((addresses) => {
      passes.push([...addresses].join());
      return new Promise((resolve) => pending.push(resolve));
    });
    const first = queue.add(['a']);
    await new Promise(setImmediate);
    const others = Array.from({ length: 100 }, (_, i) => queue.add([`b${i % 2}`]));
    await new Promise(setImmediate);
    assert.deepEqual(passes, ['a']);
    pending.shift()?.();
    await first;
    await new Promise(setImmediate);
    assert.deepEqual(passes, ['a', 'b0,b1']);
    pending.shift()?.();
    await Promise.all(others);
    assert.equal(passes.length, 2);
  });
});
