import assert from 'node:assert/strict';
import type { ConntrackEntry, MarkFilter, NftError } from 'nftables-napi';
import { packLabels } from '../../lib/net/bytes.ts';
import type { Log } from '../../lib/process/log.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { forgetAll, forgettingConnections } from './forget-connections.ts';
import type { EndedConnections } from './lingering.ts';
import { labelsOf, slotMark } from './render/marks.ts';

const settled = (): Promise<void> => new Promise(setImmediate);
const ended = (some: Partial<EndedConnections>): EndedConnections => ({
  marks: new Set<number>(),
  addresses: new Set<string>(),
  unopened: new Set<number>(),
  ...some,
});
const refusal = (code: string): NftError => Object.assign(new Error(code), { code }) as NftError;

/**
 * A table of connections, of which the kernel refuses to delete some as long as the test says so.
 */
function kernel() {
  const clock = fakeClock();
  const table = new Set<ConntrackEntry>();
  const refused = new Map<ConntrackEntry, NftError>();
  const woken: ConntrackEntry[] = [];
  const logged: string[] = [];
  let unreadable: NftError | null = null;
  const forgetting = forgettingConnections({
    clock,
    log: {
      error: ((_message: string, { error, retryIn }: { error: string; retryIn: number }) =>
        logged.push(`${error} ${retryIn}`)) as unknown as Log['error'],
    },
    waker: { wake: (entries) => void woken.push(...entries) },
    open: () => ({
      async *entries(filter: MarkFilter | null = null) {
        if (unreadable !== null) throw unreadable;
        yield [...table].filter(({ mark }) => filter === null || (mark & filter.mask) === filter.mark);
      },
      async delete(entries) {
        return entries.map((entry) => {
          const error = refused.get(entry) ?? (table.has(entry) ? null : refusal('ENOENT'));
          if (error === null) table.delete(entry);
          return error;
        });
      },
      close: async () => {},
    }),
  });
  const entry = (slot: number, tcpState: number | null = 3): ConntrackEntry => {
    const one = { family: 4, mark: slotMark(slot), tcpState } as ConntrackEntry;
    table.add(one);
    return one;
  };
  const setUnreadable = (error: NftError | null): void => {
    unreadable = error;
  };
  return { clock, table, refused, woken, logged, forgetting, entry, setUnreadable };
}

describe('forgettingConnections', () => {
  it('deletes those of a mark, and of a lost gateway what is not open; open ones are woken', async () => {
    const { table, woken, logged, forgetting, entry } = kernel();
    const [, other, open] = [entry(1), entry(2), entry(3), entry(3, 1), entry(3, null)];
    await forgetting.add(ended({ marks: new Set([slotMark(1)]), unopened: new Set([slotMark(3)]) }));
    assert.deepEqual([[...table], logged], [[other, open], []]);
    assert.ok(open !== undefined && woken.includes(open));
  });

  it('tries again when the table cannot be read, with what has ended since', async () => {
    const { clock, table, logged, forgetting, entry, setUnreadable } = kernel();
    setUnreadable(refusal('ENOBUFS'));
    const [, , third] = [entry(1), entry(2), entry(3)];
    await forgetting.add(ended({ marks: new Set([slotMark(1)]) }));
    await forgetting.add(ended({ marks: new Set([slotMark(2)]) }));
    assert.deepEqual([table.size, logged], [3, ['ENOBUFS 1000', 'ENOBUFS 2000']]);
    setUnreadable(null);
    clock.pass(2_000);
    await settled();
    assert.deepEqual([[...table], clock.waiting()], [[third], []]);
  });

  it('tries again what the kernel did not delete, and nothing because of what ended by itself', async () => {
    const { clock, table, refused, logged, forgetting, entry } = kernel();
    const [gone, busy] = [entry(1), entry(1)];
    refused.set(gone, refusal('ENOENT')).set(busy, refusal('EBUSY'));
    await forgetting.add(ended({ marks: new Set([slotMark(1)]) }));
    assert.deepEqual(logged, ['EBUSY 1000']);
    refused.delete(busy);
    clock.pass(1_000);
    await settled();
    assert.deepEqual([[...table], logged.length, clock.waiting()], [[gone], 1, []]);
  });
});

describe('forgetAll', () => {
  const ALL_LABELS = Array.from({ length: 128 }, (_, bit) => bit);
  const NO_LABELS = new Uint8Array(0);
  const connection = (mark: number, labels: Uint8Array = NO_LABELS): ConntrackEntry =>
    ({ family: 4, mark, labels }) as ConntrackEntry;

  it('deletes what has a mark, or lost it to others, until a pass finds none', async () => {
    const [marked, late] = [connection(slotMark(1)), connection(slotMark(1))];
    const labels = labelsOf(slotMark(1));
    const [lost, other] = [connection(1, packLabels(labels)), connection(1)];
    // Others write labels too: no connection of ours lacks a label, or has both of a bit.
    const others = [other, connection(1, packLabels(labels.slice(1))), connection(0, packLabels(ALL_LABELS))];
    const passes = [[marked, lost, ...others], [late, ...others], others, [late]];
    const deleted: ConntrackEntry[] = [];
    await forgetAll(() => ({
      async *entries() {
        yield passes.shift() ?? [];
      },
      async delete(entries) {
        deleted.push(...entries);
        return entries.map(() => null);
      },
      close: async () => {},
    }));
    assert.deepEqual(deleted, [marked, lost, late]);
  });
});
