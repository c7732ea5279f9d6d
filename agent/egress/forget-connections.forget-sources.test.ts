import assert from 'node:assert/strict';
import type { ConntrackEntry } from 'nftables-napi';
import { forgetSources } from './forget-connections.ts';

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
});
