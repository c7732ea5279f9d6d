import assert from 'node:assert/strict';
import type { ConntrackEntry } from 'nftables-napi';
import type { EgressOutcome, NodeEgress } from '../../apis/egress/node-egress.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { packAddress, toMemberSet } from '../../lib/net/member-set.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { ENDED, slotMark, takeMark } from './render/marks.ts';
import { EgressHistory, resetConnections } from './steered-connections.ts';

const POD = '10.244.1.7';
const BANK = '203.0.113.5';
const ELSEWHERE = '192.0.2.80';

function bytes(text: string): Uint8Array {
  const address = parseAddress(text);
  assert.ok(address !== null);
  return packAddress(address);
}

function entry(dst: string, mark: number, changes: Partial<ConntrackEntry> = {}): ConntrackEntry {
  const tuple = (source: string, destination: string) => ({
    source: bytes(source),
    destination: bytes(destination),
    sourcePort: 1,
    destinationPort: 2,
    icmpType: null,
    icmpCode: null,
  });
  const ends = { original: tuple(POD, dst), reply: tuple(dst, POD) };
  const known = { protocol: 6, status: 14, tcpState: 3, mark, labels: new Uint8Array(0), identity: [] };
  return { family: 4, ...known, ...ends, ...changes };
}

/**
 * One policy steers the pod to 203.0.113.0/24 by slot 5; of slot 6 this node is the gateway, as
 * take 9.
 */
function steering(namespace: string, name: string): NodeEgress {
  const policy = { kind: 'EgressPolicy', apiGroup: 'nodewall.io', namespace, name } as const;
  const range = { first: 0xcb007100n, last: 0xcb0071ffn };
  return fakeNodeEgress({
    sources: new Map([[POD, 'c']]),
    classes: new Map([['c', { id: 'c', ipv4: [{ range, outcome: 'o' }], ipv6: [] }]]),
    outcomes: new Map([
      ['o', { id: 'o', policy, audited: [], action: { kind: 'slots', slots: [5], reserve: [6] } }],
    ]),
    slots: new Map([
      [5, { number: 5, node: 'edge-1', take: 0 }],
      [6, { number: 6, node: 'worker-1', take: 9 }],
    ]),
  });
}

describe('connections of an egress policy', () => {
  it('are those that it steers by the mark that they have, now or before an edit', () => {
    const history = new EgressHistory();
    history.remember(steering('shop', 'old'));
    history.remember(steering('shop', 'new'));
    assert.deepEqual([...history.policies()].sort(), ['shop/new', 'shop/old']);
    for (const policy of history.policies()) {
      const has = (one: ConntrackEntry) => history.hasSteered(policy, one);
      assert.ok(has(entry(BANK, slotMark(5))));
      assert.ok(has(entry(BANK, slotMark(5) | 0x80ff)), 'the bits of others do not count');
      assert.ok(has(entry(BANK, takeMark(9))), 'this node is the gateway');
      assert.ok(!has(entry(BANK, slotMark(7))));
      assert.ok(!has(entry(BANK, 0)));
      assert.equal(history.hasPassed(policy, entry(BANK, 0x80ff)), policy === 'shop/new', 'no gateway');
      assert.ok(!history.hasPassed(policy, entry(BANK, slotMark(5))));
      assert.ok(!history.hasPassed(policy, entry(ELSEWHERE, 0)));
      assert.ok(!has(entry(BANK, ENDED)));
      assert.ok(!has(entry(ELSEWHERE, slotMark(5))));
    }
  });

  it('are remembered for a while', () => {
    const history = new EgressHistory();
    for (let i = 0; i < 40; i++) history.remember(steering('shop', `p${i}`));
    assert.equal(history.policies().size, 16);
    const last = steering('shop', 'last');
    for (let i = 0; i < 40; i++) history.remember({ ...last });
    assert.equal(history.policies().size, 16);
  });

  it('are not those that lead inside, or that may leave directly', () => {
    const all = steering('shop', 'p');
    const passed = (changes: Partial<NodeEgress>, policy: string | null = null): boolean => {
      const history = new EgressHistory();
      history.remember({ ...all, ...changes });
      return history.hasPassed(policy, entry(BANK, 0));
    };
    assert.ok(passed({}));
    assert.ok(!passed({ inside: toMemberSet([], [BANK]) }));
    assert.ok(!passed({ sources: new Map([[POD, null]]) }));
    const acting = (action: EgressOutcome['action']) => {
      const outcome = all.outcomes.get('o') ?? assert.fail();
      return { outcomes: new Map([['o', { ...outcome, action }]]) };
    };
    assert.ok(!passed(acting({ kind: 'direct' })));
    assert.ok(passed(acting({ kind: 'drop', reason: 'policy' })));
    assert.ok(passed(acting({ kind: 'take', take: 9 })));
    const otherwise = acting({ kind: 'slots', slots: [5], otherwise: 'Direct' });
    assert.deepEqual([passed(otherwise), passed(otherwise, 'shop/p')], [false, true]);
  });

  it('end for a policy with Recheck that began without a gateway, or by that of another policy', () => {
    const recheck = (egress: NodeEgress): NodeEgress => {
      const outcomes = [...egress.outcomes.values()].map((one) => ({
        ...one,
        established: 'Recheck' as const,
      }));
      return { ...egress, outcomes: new Map(outcomes.map((one) => [one.id, one])) };
    };
    const slot = (egress: NodeEgress, number: number): NodeEgress => {
      const outcome = egress.outcomes.get('o') ?? assert.fail();
      const action = { kind: 'slots', slots: [number] } as const;
      return { ...egress, outcomes: new Map([['o', { ...outcome, action }]]) };
    };
    const marks = [0, slotMark(5), slotMark(7), slotMark(8), slotMark(9), ENDED];
    const outdated = (...states: NodeEgress[]): number[] => {
      const history = new EgressHistory();
      for (const state of states) history.remember(state);
      return marks.filter((mark) => history.isOutdated(entry(BANK, mark)));
    };
    const other = slot(steering('shop', 'other'), 5);
    const [moved, now] = [7, 8].map((number) => slot(steering('shop', 'p'), number)) as [
      NodeEgress,
      NodeEgress,
    ];
    assert.deepEqual(outdated(other, moved, now), [], 'Keep');
    // Nobody knows slot 9; its own earlier slot 7 stays.
    assert.deepEqual(outdated(other, moved, recheck(now)), [0, slotMark(5)]);
    const history = new EgressHistory();
    history.remember(recheck(now));
    assert.ok(history.rechecks() && !history.isOutdated(entry(ELSEWHERE, 0)));
  });

  it('are those alone that a filter lets through', async () => {
    const history = new EgressHistory();
    history.remember(steering('shop', 'p'));
    const deleted: ConntrackEntry[] = [];
    const kinds = { protocol: 17 };
    await resetConnections({
      history,
      conntrack: {
        async *entries() {
          yield ['203.0.113.5', '203.0.113.6'].map((to) => entry(to, 0, kinds));
        },
        mark: async () => [],
        delete: async (entries) => {
          deleted.push(...entries);
          return entries.map(() => null);
        },
      },
      waker: { wake() {} },
      policy: null,
      own: new Set(),
      isDryRun: false,
      only: ({ dst }) => dst === '203.0.113.6',
      signal: new AbortController().signal,
      ended() {},
    });
    assert.deepEqual(
      deleted.map(({ original }) => original.destination),
      [bytes('203.0.113.6')],
    );
  });

  it('are all that began without a gateway, but those to this machine itself', async () => {
    const history = new EgressHistory();
    history.remember(steering('', 'all'));
    const reset = async (own: readonly string[]): Promise<string[]> => {
      const ended: string[] = [];
      await resetConnections({
        history,
        conntrack: {
          async *entries() {
            yield [entry(BANK, 0), entry(BANK, slotMark(5)), entry(ELSEWHERE, 0)];
          },
          mark: async () => [],
          delete: async () => [],
        },
        waker: { wake() {} },
        policy: null,
        own: new Set(own),
        isDryRun: true,
        signal: new AbortController().signal,
        ended: ({ dst, steered }) => void ended.push(`${dst} ${steered}`),
      });
      return ended;
    };
    assert.deepEqual(await reset([]), [`${BANK} false`]);
    assert.deepEqual(await reset([BANK]), []);
  });

  it('of pods that a gateway serves are deleted if they began while its rules were away', async () => {
    const history = new EgressHistory();
    const arrivals = new Map([[POD, { node: 'edge-1', takes: [] }]]);
    history.remember(fakeNodeEgress({ arrivals, inside: toMemberSet([], [ELSEWHERE]) }));
    const deleted: number[] = [];
    const ended = await resetConnections({
      history,
      conntrack: {
        async *entries() {
          yield [entry(BANK, 0), entry(BANK, 0, { protocol: 17, tcpState: null })];
          yield [entry(BANK, takeMark(9)), entry(ELSEWHERE, 0)];
        },
        mark: async (entries) => entries.map(() => assert.fail('a gateway resets nothing')),
        async delete(entries) {
          deleted.push(...entries.map(({ protocol }) => protocol));
          return entries.map(() => null);
        },
      },
      waker: { wake() {} },
      policy: null,
      own: new Set(),
      isDryRun: false,
      signal: new AbortController().signal,
      ended() {},
    });
    assert.deepEqual([deleted, ended.ended], [[6, 17], 2]);
  });

  it('are marked as ended if they are TCP, else deleted', async () => {
    const history = new EgressHistory();
    history.remember(steering('', 'all'));
    const calls: unknown[] = [];
    const ended: string[] = [];
    const mark = slotMark(5);
    const summary = await resetConnections({
      history,
      conntrack: {
        async *entries() {
          yield [entry(BANK, mark), entry(BANK, mark, { protocol: 17, tcpState: null })];
          yield [entry(BANK, mark, { tcpState: 7 }), entry(ELSEWHERE, mark)];
        },
        async mark(entries, value, mask) {
          if (entries.length > 0) calls.push(['mark', entries.length, value, mask]);
          return entries.map(() => null);
        },
        async delete(entries) {
          if (entries.length > 0) calls.push(['delete', entries.map(({ protocol }) => protocol)]);
          return entries.map(() => null);
        },
      },
      waker: {
        wake(entries) {
          if (entries.length > 0) calls.push(['wake', entries.map(({ protocol }) => protocol)]);
        },
      },
      policy: 'all',
      own: new Set(),
      isDryRun: false,
      signal: new AbortController().signal,
      ended: ({ protocol, src, dst }) => void ended.push(`${protocol} ${src} ${dst}`),
    });
    assert.deepEqual(calls, [
      ['mark', 1, ENDED, 0x7f000000],
      ['wake', [6]],
      ['delete', [17]],
    ]);
    assert.deepEqual(ended, [`tcp ${POD} ${BANK}`, `udp ${POD} ${BANK}`]);
    assert.deepEqual(summary, { examined: 4, ended: 2, failed: 0, error: null });
  });
});
