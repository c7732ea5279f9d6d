import assert from 'node:assert/strict';
import type { HeldSlot, LeaseRequest } from '../../../apis/heartbeat.ts';
import type { WrittenSlot } from '../../extension/extension.ts';
import { LeaseTable } from './lease-table.ts';

const LEASE = 2_000;
const QUIET = 2_500;

function slot(node: string, more: Partial<WrittenSlot> = {}): WrittenSlot {
  const addresses = ['198.51.100.1', '198.51.100.2'];
  return { gateway: 'g', slot: '0', node, epoch: 1, addresses, lease: LEASE, longest: LEASE, ...more };
}

const held = (milliseconds: number, more: Partial<HeldSlot> = {}): HeldSlot => {
  const addresses = ['198.51.100.1', '198.51.100.2'];
  return { gateway: 'g', slot: '0', epoch: 1, addresses, milliseconds, ...more };
};

/** Leads since 0. */
function table(...slots: WrittenSlot[]) {
  const one = new LeaseTable();
  one.begin(0, slots, [LEASE]);
  const ask = (now: number, node: string, more: Partial<LeaseRequest> = {}) => {
    const request = { node, boot: 'b', sent: now, held: [], ready: [], ...more };
    const grants = one.grant(now, request);
    return grants?.map(({ addresses, milliseconds }) => `${addresses.join(' ')} ${milliseconds}`) ?? 'late';
  };
  return { one, ask };
}

const BOTH = '198.51.100.1 198.51.100.2 2000';

describe('LeaseTable', () => {
  it('grants nothing at first, for the leader before may have granted it to others', () => {
    const { ask } = table(slot('a'));
    assert.deepEqual(ask(QUIET - 1, 'a'), []);
    assert.deepEqual(ask(QUIET, 'a'), [BOTH]);
  });

  it('grants at once what the owner in the status still has', () => {
    const { ask } = table(slot('a'));
    assert.deepEqual(ask(1, 'a', { held: [held(500, { epoch: 0 })] }), []);
    assert.deepEqual(ask(2, 'a', { held: [held(0)] }), []);
    const one = held(500, { addresses: ['198.51.100.2'] });
    assert.deepEqual(ask(3, 'a', { held: [one] }), ['198.51.100.2 2000']);
  });

  it('waits for the longest of all leases at first, as an address may have come from another slot', () => {
    const { ask } = table(slot('a'), slot('b', { slot: '1', addresses: ['198.51.100.3'], longest: 30_000 }));
    assert.deepEqual(ask(30_499, 'a'), []);
    assert.deepEqual(ask(30_500, 'a'), [BOTH]);
  });

  it('gives a slot to its next owner when the lease and the margin are over', () => {
    const { one, ask } = table(slot('a'));
    ask(10_000, 'a');
    one.setSlots([slot('b', { epoch: 2 })]);
    assert.deepEqual(ask(12_499, 'b'), []);
    assert.deepEqual(ask(12_500, 'b'), [BOTH]);
  });

  it('gives it at once when the owner before has given it up, of each address', () => {
    const { one, ask } = table(slot('a'));
    ask(10_000, 'a');
    one.setSlots([slot('b', { epoch: 2 })]);
    ask(10_100, 'a', { held: [held(1_900, { addresses: ['198.51.100.2'] })] });
    assert.deepEqual(ask(10_101, 'b'), ['198.51.100.1 2000']);
    ask(10_102, 'a');
    assert.deepEqual(ask(10_103, 'b'), [BOTH]);
  });

  it('does not grant an address that another slot of another node had', () => {
    const { one, ask } = table(slot('a'));
    ask(10_000, 'a');
    one.setSlots([
      slot('a', { addresses: ['198.51.100.1'] }),
      slot('b', { slot: '1', addresses: ['198.51.100.2', '198.51.100.3'] }),
    ]);
    assert.deepEqual(ask(10_100, 'b'), ['198.51.100.3 2000']);
    assert.deepEqual(ask(10_200, 'a', { held: [held(1_800)] }), ['198.51.100.1 2000']);
    assert.deepEqual(ask(12_499, 'b'), ['198.51.100.3 2000']);
    assert.deepEqual(ask(12_501, 'b'), ['198.51.100.2 198.51.100.3 2000']);
  });

  it('ignores a request that is older than the last one, also of the boot before', () => {
    const { one, ask } = table(slot('a'));
    ask(10_000, 'a', { sent: 50 });
    one.setSlots([slot('b', { epoch: 2 })]);
    assert.equal(ask(10_100, 'a', { sent: 49 }), 'late');
    assert.equal(ask(10_100, 'a', { sent: 50 }), 'late');
    assert.deepEqual(ask(10_200, 'b'), []);
    one.setSlots([slot('a', { epoch: 3 })]);
    assert.deepEqual(ask(10_300, 'a', { boot: 'c', sent: 1 }), [BOTH]);
    assert.equal(ask(10_400, 'a', { boot: 'b', sent: 60 }), 'late');
  });

  it('believes no claim of more than was granted', () => {
    const { one, ask } = table(slot('a'));
    ask(10_000, 'a');
    ask(10_000, 'x', { held: [held(3_600_000)] });
    ask(10_001, 'a', { held: [held(3_600_000)] });
    one.setSlots([slot('b', { epoch: 2 })]);
    assert.deepEqual(ask(12_502, 'b'), [BOTH]);
  });

  it('grants a longer lease only when the status says so', () => {
    const { one, ask } = table(slot('a'));
    assert.deepEqual(ask(10_000, 'a', { extendSeconds: 30 }), [BOTH]);
    one.setSlots([slot('a', { longest: 30_000 })]);
    assert.deepEqual(ask(10_100, 'a', { extendSeconds: 30, held: [held(1_900)] }), [
      BOTH.replace('2000', '30000'),
    ]);
    assert.ok(one.outlasts(['198.51.100.1'], 40_099));
    assert.deepEqual(ask(20_000, 'a', { held: [held(20_000)] }), [BOTH]);
    assert.ok(one.outlasts(['198.51.100.1'], 39_999));
    // The agent has shortened the timeouts of the kernel.
    ask(20_500, 'a', { held: [held(1_500)] });
    assert.ok(!one.outlasts(['198.51.100.1'], 22_501));
  });

  it('counts what is leased, and forgets deleted nodes when their addresses have ended', () => {
    const { one, ask } = table(slot('a'));
    ask(10_000, 'a');
    assert.deepEqual(
      [one.counts(10_000), one.counts(12_000)],
      [
        { slots: 1, addresses: 2 },
        { slots: 0, addresses: 0 },
      ],
    );
    one.forget(11_000, new Set());
    assert.ok(one.heard('a'));
    one.forget(13_000, new Set());
    assert.equal(one.heard('a'), undefined);
  });
});
