import assert from 'node:assert/strict';
import type { EgressGatewaySpec } from '../../../apis/egress/objects.ts';
import { fakeGateway, fakeNode } from '../../../test/fake/egress-objects.ts';
import { allocate } from '../allocation.ts';
import { LeaseTable } from './lease-table.ts';
import { heartbeatLack } from './readiness.ts';

/**
 * All candidates but the silent ones have sent a heartbeat; these say that they do not reach
 * others.
 */
function heard(
  candidates: readonly string[],
  complaints: Readonly<Record<string, readonly string[]>>,
  {
    silent = [],
    spec = {},
    now = 10_001,
  }: {
    readonly silent?: readonly string[];
    readonly spec?: Partial<EgressGatewaySpec>;
    readonly now?: number;
  } = {},
) {
  const table = new LeaseTable();
  table.begin(0, [], [2_000]);
  for (const node of new Set([...candidates, ...Object.keys(complaints)]).difference(new Set(silent))) {
    const unreachable = complaints[node] ?? [];
    table.grant(now - 1, { node, boot: 'b', sent: 1, held: [], ready: [], unreachable });
  }
  const nodes = candidates.map((name) => fakeNode(name, ['192.0.2.1']));
  const allocation = allocate(fakeGateway('g', { ranges: ['198.51.100.1'], ...spec }), nodes, []);
  return (node: string) => heartbeatLack(table, allocation, node, now) ?? null;
}

describe('heartbeatLack', () => {
  it('is Unreachable when several nodes say so that reach another candidate', () => {
    const lack = heard(['a', 'b'], { x: ['a'], y: ['a'], z: ['b'] });
    assert.deepEqual(['a', 'b'].map(lack), ['Unreachable', null]);
    assert.equal(heard(['a', 'b'], { x: ['a', 'b'], y: ['a', 'b'], z: [] })('a'), null);
  });

  it('is Unreachable too where this leader has never heard the node', () => {
    const lost = { silent: ['a'], spec: { source: 'Node' }, now: 4_999 } as const;
    const lack = heard(['a', 'b'], { x: ['a'], y: ['a'] }, lost);
    assert.deepEqual(['a', 'b'].map(lack), ['Unreachable', null]);
    assert.equal(heard(['a', 'b'], { x: ['a'], y: [] }, lost)('a'), null);
    assert.equal(heard(['a', 'b'], { x: ['a'], y: ['a'] }, { silent: ['a'] })('a'), 'AgentSilent');
  });

  it('is AgentSilent 5 s after leadership began, or two leases, where it is not heard and others are', () => {
    const lost = { silent: ['a'], spec: { source: 'Node' } } as const;
    const at = (now: number, more: object = {}) => heard(['a', 'b'], {}, { ...lost, now, ...more });
    assert.deepEqual([at(4_999)('a'), at(5_000)('a'), at(5_000)('b')], [null, 'AgentSilent', null]);
    const failover = { heartbeatMilliseconds: 500, leaseSeconds: 4, failback: false };
    const long = { spec: { source: 'Node', failover } };
    assert.deepEqual([at(7_999, long)('a'), at(8_000, long)('a')], [null, 'AgentSilent']);
    const none = heard(['a', 'b'], { x: [] }, { ...lost, silent: ['a', 'b'] });
    assert.deepEqual(['a', 'b'].map(none), [null, null]);
  });

  it('costs no more where nodes name all that there could be', () => {
    const candidates = Array.from({ length: 200 }, (_, i) => `candidate-${i}`);
    const others = Array.from({ length: 3_800 }, (_, i) => `other-${i}`);
    const all = [...others, ...candidates];
    const lack = heard(candidates, Object.fromEntries(others.slice(0, 8).map((name) => [name, all])));
    const before = process.cpuUsage();
    assert.ok(candidates.every((node) => lack(node) === null));
    // A list of names instead of a set takes a hundred times as long.
    const { user } = process.cpuUsage(before);
    assert.ok(user < 1e6, `${user / 1000} ms of processor time`);
  });
});
