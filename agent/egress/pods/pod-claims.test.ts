import assert from 'node:assert/strict';
import type { EgressClass, EgressOutcome, NodeEgress } from '../../../apis/egress/node-egress.ts';
import { fakeNodeEgress } from '../../../test/fake/egress-objects.ts';
import { PodClaims } from './pod-claims.ts';

const ALL = { first: 0n, last: (1n << 32n) - 1n };
const A = '10.0.0.1';

function steered(id: string, slot: number): [EgressClass, EgressOutcome] {
  const action = { kind: 'slots', slots: [slot] } as const;
  return [
    { id, ipv4: [{ range: ALL, outcome: id }], ipv6: [] },
    { id, policy: null, audited: [], action },
  ];
}

/** Classes c1 by the gateway g1, and c2 by g2. */
function egress(
  pods: Record<string, string | null>,
  sources: Record<string, string | null> = {},
): NodeEgress {
  const both = [steered('c1', 1), steered('c2', 2)];
  return fakeNodeEgress({
    pods: new Map(Object.entries(pods)),
    sources: new Map(Object.entries(sources)),
    classes: new Map(both.map(([one]) => [one.id, one])),
    outcomes: new Map(both.map(([, one]) => [one.id, one])),
    slots: new Map([1, 2].map((number) => [number, { number, node: `g${number}`, take: 0 }])),
  });
}

class Node {
  readonly claims = new PodClaims();
  now = 0;
  lost: readonly string[] = [];
  /** After the last look: milliseconds until the next. */
  next: number | null = null;
  egress: NodeEgress;

  constructor(first: NodeEgress, pods: Record<string, string> = {}) {
    this.egress = first;
    this.claims.hasPods(new Map(Object.entries(pods)), { egress: null, now: 0, isFirst: true });
  }

  cni(pods: Record<string, string>): string[] {
    const { egress: known, now } = this;
    return this.claims.hasPods(new Map(Object.entries(pods)), { egress: known, now, isFirst: false });
  }

  /** Sources, and what is sent: `GATEWAY ADDRESS POD CLASS`. */
  look(): [Record<string, string | null>, string[]] {
    const { sources, due, next } = this.claims.over(this.egress, this.now, this.lost);
    this.next = next;
    const sent = [...due].flatMap(([gateway, claims]) =>
      claims.map((claim) => `${gateway} ${claim.address} ${claim.pod} ${claim.class}`),
    );
    return [Object.fromEntries(sources), sent];
  }

  confirm(gateway: string, pod: string, id: string | null): void {
    this.claims.isInForce(gateway, { address: A, pod, class: id }, this.now);
  }
}

describe('pods of a node, by CNI and by the controller', () => {
  it('a pod is held until its gateway has confirmed', () => {
    const node = new Node(egress({ x: 'c1' }));
    node.cni({ [A]: 'x' });
    assert.deepEqual(node.look(), [{}, [`g1 ${A} x c1`]]);
    node.confirm('g2', 'x', 'c1');
    node.confirm('g1', 'y', 'c1');
    node.confirm('g1', 'x', 'c2');
    assert.deepEqual(node.look(), [{}, []]);
    node.now = 25;
    assert.deepEqual(node.look(), [{}, [`g1 ${A} x c1`]], 'sent again');
    node.confirm('g1', 'x', 'c1');
    assert.deepEqual(node.look(), [{ [A]: 'c1' }, []]);
    node.now += 10_000;
    assert.deepEqual(node.look(), [{ [A]: 'c1' }, [`g1 ${A} x c1`]], 'repeated until the controller knows');
    node.egress = egress({ x: 'c1' }, { [A]: 'c1' });
    node.now += 10_000;
    assert.deepEqual(node.look(), [{ [A]: 'c1' }, []]);
  });

  it('a pod without a class needs no gateway; one that the controller has not named is held', () => {
    const node = new Node(egress({ x: null }));
    node.cni({ [A]: 'x' });
    assert.deepEqual(node.look(), [{ [A]: null }, []]);
    node.cni({ '10.0.0.2': 'y' });
    assert.deepEqual(node.look()[0], {});
  });

  it('an address that CNI removed is nobody’s at once, and its gateway hears it', () => {
    const node = new Node(egress({ x: 'c1' }, { [A]: 'c1' }), { [A]: 'x' });
    assert.deepEqual(node.look(), [{ [A]: 'c1' }, []]);
    assert.deepEqual(node.cni({}), [A]);
    assert.deepEqual(node.look(), [{}, [`g1 ${A} x null`]]);
    assert.deepEqual(node.look(), [{}, []]);
  });

  it('a gateway hears again that an address is nobody’s until it and the controller say so', () => {
    const node = new Node(egress({ x: 'c1' }, { [A]: 'c1' }), { [A]: 'x' });
    node.look();
    node.cni({});
    const said = [{}, [`g1 ${A} x null`]];
    assert.deepEqual(node.look(), said);
    node.now = 25;
    assert.deepEqual(node.look(), said, 'a datagram was lost');
    node.confirm('g1', 'x', null);
    node.now = 9_000;
    assert.deepEqual(node.look(), [{}, []]);
    node.now = 10_025;
    assert.deepEqual(node.look(), said, 'a gateway forgets');
    node.egress = egress({});
    node.now = 30_000;
    assert.deepEqual(node.look(), [{}, []]);
    assert.equal(node.next, null);
  });

  it('an address that a gateway takes for nobody’s is claimed again, and its pod goes on', () => {
    const node = new Node(egress({ x: 'c1' }, { [A]: 'c1' }), { [A]: 'x' });
    assert.deepEqual(node.look(), [{ [A]: 'c1' }, []]);
    node.confirm('g2', 'x', null);
    assert.deepEqual(node.look(), [{ [A]: 'c1' }, []], 'no gateway of it');
    for (const [pod, id] of [
      ['x', null],
      ['y', 'c1'],
      ['x', 'c2'],
    ] as const) {
      node.confirm('g1', pod, id);
      assert.deepEqual(node.look(), [{ [A]: 'c1' }, [`g1 ${A} x c1`]], `${pod} ${id}`);
      assert.equal(node.next, 25);
      node.now += 25;
      assert.deepEqual(node.look(), [{ [A]: 'c1' }, [`g1 ${A} x c1`]], 'sent again');
      node.confirm('g1', 'x', 'c1');
      node.now += 60_000;
      assert.deepEqual(node.look(), [{ [A]: 'c1' }, []]);
      assert.equal(node.next, null);
    }
  });

  it('another pod with the address never has the class of the earlier one', () => {
    const node = new Node(egress({ x: 'c1', y: 'c2' }, { [A]: 'c1' }), { [A]: 'x' });
    node.look();
    assert.deepEqual(node.cni({ [A]: 'y' }), [A], 'connections must end');
    assert.deepEqual(node.look(), [{}, [`g1 ${A} x null`, `g2 ${A} y c2`]]);
    node.confirm('g2', 'y', 'c2');
    assert.deepEqual(node.look(), [{}, []], 'its connections have not ended');
    node.claims.cleaned([A]);
    assert.deepEqual(node.look(), [{ [A]: 'c2' }, []]);
    node.egress = egress({ y: 'c2' });
    assert.deepEqual(node.look(), [{ [A]: 'c2' }, []]);
  });

  it('where the controller agrees, a gateway that does not answer is not waited for longer', () => {
    const node = new Node(egress({ y: 'c1' }, { [A]: 'c1' }));
    node.cni({ [A]: 'y' });
    node.claims.cleaned([A]);
    assert.deepEqual(node.look()[0], {});
    node.now = 5_000;
    assert.deepEqual(node.look()[0], { [A]: 'c1' });
  });

  it('a gateway that is lost is not waited for, and asked first when it is back', () => {
    const node = new Node(egress({ x: 'c1' }));
    node.cni({ [A]: 'x' });
    node.lost = ['g1'];
    assert.deepEqual(node.look()[0], { [A]: 'c1' });
    node.lost = [];
    assert.deepEqual(node.look()[0], {});
    node.confirm('g1', 'x', 'c1');
    assert.deepEqual(node.look()[0], { [A]: 'c1' });
  });

  it('what was there at the start goes on, and policies change without a wait', () => {
    const node = new Node(egress({ x: 'c1' }, { [A]: 'c1' }), { [A]: 'x' });
    assert.deepEqual(node.look(), [{ [A]: 'c1' }, []]);
    node.egress = egress({ x: 'c2' }, { [A]: 'c2' });
    assert.deepEqual(node.look(), [{ [A]: 'c2' }, []]);
  });
});
