import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { EgressGateway } from '../../../apis/egress/objects.ts';
import type { Node } from '../../../apis/objects.ts';
import { validateObject } from '../../../apis/validate/object.ts';
import { RangeIndex } from '../../../lib/net/range-index.ts';
import { fakeNode } from '../../../test/fake/egress-objects.ts';
import { gatewayProblems, nodelessProblems, type PoolOf, poolsOf } from './gateways.ts';

function gateway(name: string, ranges: readonly string[]): EgressGateway {
  const raw = {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'EgressGateway',
    metadata: { name },
    spec: { nodeSelector: { matchLabels: { a: 'b' } }, addresses: { pools: [{ ranges }] } },
  };
  const { object, problems } = validateObject(raw, { egress: true });
  assert.ok(object?.kind === 'EgressGateway', JSON.stringify(problems));
  return object;
}

const RANGE = fc
  .tuple(fc.nat(60), fc.nat(9))
  .map(([first, more]) => `192.0.2.${first}-192.0.2.${first + more}`);
const RANGES = fc.array(RANGE, { minLength: 1, maxLength: 4 });

function overlap(a: PoolOf, b: PoolOf): boolean {
  return a.range.first <= b.range.last && b.range.first <= a.range.last;
}

describe('pools of gateways', () => {
  it('are each reported that overlap those of another gateway', () => {
    fc.assert(
      fc.property(fc.array(RANGES, { maxLength: 5 }), (lists) => {
        const gateways = lists.map((ranges, i) => gateway(`g${i}`, ranges));
        const pools = poolsOf(gateways);
        const found = gatewayProblems(gateways, pools, new RangeIndex([]));
        const reported = found.map(({ object, problem }) => {
          return `${object.name} ${problem.message.split(' ')[0]}`;
        });
        const expected = pools
          .filter((pool) => pools.some((other) => other.gateway !== pool.gateway && overlap(pool, other)))
          .map((pool) => `${pool.gateway.name} ${pool.text}`);
        assert.deepEqual(reported, expected);
      }),
      { numRuns: 500 },
    );
  });
});

describe('a gateway', () => {
  it('is warned of that selects no Node, where Nodes are known', () => {
    const node = (labels: Record<string, string>) => fakeNode('n', [], { labels });
    const found = (...nodes: Node[]) =>
      nodelessProblems([gateway('g', ['192.0.2.1'])], nodes).map(({ problem: { severity, message } }) => [
        severity,
        message.split(';')[0],
      ]);
    assert.deepEqual(found(), []);
    assert.deepEqual(found(node({ a: 'c' }), node({ a: 'b' })), []);
    assert.deepEqual(found(node({ a: 'c' })), [['warning', 'selects no Node']]);
  });
});
