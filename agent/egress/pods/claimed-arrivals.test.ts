import assert from 'node:assert/strict';
import type { EgressArrival, NodeEgress } from '../../../apis/egress/node-egress.ts';
import { fakeNodeEgress } from '../../../test/fake/egress-objects.ts';
import { ClaimedArrivals, isInForce } from './claimed-arrivals.ts';

const A = '10.0.0.1';
const takes = (take: number): EgressArrival['takes'] => [{ range: { first: 0n, last: 9n }, take }];
const ONE = { nodes: ['n', 'm'], ipv4: takes(1), ipv6: takes(3) };
const TWO = { nodes: ['m'], ipv4: takes(2), ipv6: [] };

function gateway(arrivals: Record<string, EgressArrival> = {}): NodeEgress {
  return fakeNodeEgress({
    arrivals: new Map(Object.entries(arrivals)),
    served: new Map([
      ['c1', ONE],
      ['c2', TWO],
    ]),
  });
}

function claim(pod: string, id: string | null, address = A) {
  return { address, pod, class: id };
}

describe('pods of a gateway, by the claims of their nodes', () => {
  function over(claims: ClaimedArrivals, egress: NodeEgress, now = 0): Record<string, EgressArrival> {
    return Object.fromEntries(claims.over(egress, now));
  }

  it('are let in with the class that their node says', () => {
    const claims = new ClaimedArrivals();
    const egress = gateway();
    assert.equal(claims.over(egress, 0), egress.arrivals);
    assert.deepEqual(claims.accept('n', [claim('x', 'c1'), claim('x', 'c1', 'fd00::1')], egress, 0), []);
    const arrivals = claims.over(egress, 0);
    assert.deepEqual(Object.fromEntries(arrivals), {
      [A]: { node: 'n', takes: takes(1) },
      'fd00::1': { node: 'n', takes: takes(3) },
    });
    assert.ok(!isInForce('n', claim('x', 'c1'), egress));
    assert.ok(isInForce('n', claim('x', 'c1'), { ...egress, arrivals }));
    assert.ok(!isInForce('m', claim('x', 'c1'), { ...egress, arrivals }));
    assert.deepEqual(over(claims, egress, 60_001), {}, 'ends unless it is repeated');
  });

  it('are not let in from a node that has no pods of the class', () => {
    const claims = new ClaimedArrivals();
    const egress = gateway();
    claims.accept('n', [claim('x', 'c2'), claim('x', 'c3', '10.0.0.2')], egress, 0);
    assert.deepEqual(over(claims, egress), {});
    assert.ok(!isInForce('n', claim('x', 'c2'), egress));
  });

  it('are not taken from another node, until that has withdrawn the address', () => {
    const claims = new ClaimedArrivals();
    const there = { node: 'n', takes: takes(1) };
    const egress = gateway({ [A]: there });
    assert.deepEqual(claims.accept('m', [claim('y', 'c2')], egress, 0), [], 'its connections go on');
    assert.deepEqual(over(claims, egress), { [A]: there });
    claims.accept('n', [claim('x', null)], egress, 0);
    assert.deepEqual(claims.accept('m', [claim('y', 'c2')], egress, 0), [A], 'connections must end');
    assert.deepEqual(over(claims, egress), { [A]: { node: 'm', takes: takes(2) } });
    assert.ok(isInForce('n', claim('x', null), { ...egress, arrivals: claims.over(egress, 0) }));
  });

  it('are removed when their node withdraws them', () => {
    const claims = new ClaimedArrivals();
    const egress = gateway({ [A]: { node: 'n', takes: takes(1) } });
    claims.accept('n', [claim('x', null)], egress, 0);
    assert.deepEqual(over(claims, egress), {});
  });

  it('are those of the controller, once it says the same', () => {
    const claims = new ClaimedArrivals();
    claims.accept('m', [claim('y', 'c2')], gateway(), 0);
    const agreed = gateway({ [A]: { node: 'm', takes: takes(2) } });
    assert.equal(claims.over(agreed, 0), agreed.arrivals);
    const edited = gateway({ [A]: { node: 'm', takes: takes(1) } });
    assert.equal(claims.over(edited, 0), edited.arrivals);
  });

  it('has the connections ended of an address that another pod gets', () => {
    const claims = new ClaimedArrivals();
    const egress = gateway();
    assert.deepEqual(claims.accept('n', [claim('x', 'c1')], egress, 0), []);
    assert.deepEqual(claims.accept('n', [claim('x', 'c1')], egress, 0), []);
    assert.deepEqual(claims.accept('n', [claim('y', 'c1')], egress, 0), [A]);
  });
});
