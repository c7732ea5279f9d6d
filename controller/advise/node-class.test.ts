import assert from 'node:assert/strict';
import type { NodeFlow } from '../../apis/node-flows.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { seenKind } from '../../test/fake/record.ts';
import { NodeClass, type UnadvisedReason } from './node-class.ts';
import { PeerOwners } from './peer-owner.ts';
import { evidenceOf, toSeenService } from './seen-service.ts';

const OWNERS = new PeerOwners(NO_OBJECTS, 8);

function add(to: NodeClass, kind: NodeFlow, node = 'n', reason: UnadvisedReason | null = null): void {
  const service = toSeenService(kind);
  to.add({ service, reason }, { owner: OWNERS.ownerOf(kind, service), evidence: evidenceOf(kind, node) });
}

const owners = ({ uses }: NodeClass) =>
  [...uses.values()].flatMap((use) => [...use.owners.values()].map(({ owner }) => owner.text));

/** As many addresses, of as many networks. */
const many = (addresses: number, networks: number): string[] =>
  Array.from({ length: addresses }, (_, i) => {
    const [network, host] = [i % networks, Math.floor(i / networks)];
    return `198.${network >> 8}.${network & 255}.${host}`;
  });

describe('a class of nodes', () => {
  it('tells 1,024 addresses of a service apart, then as many networks, then nobody', () => {
    for (const [addresses, networks, wanted] of [
      [1_024, 8, 1_024],
      [1_025, 8, 8],
      [2_000, 1_024, 1_024],
      [2_000, 1_025, 1],
    ] as const) {
      const one = new NodeClass();
      for (const peer of many(addresses, networks)) add(one, seenKind(peer, 443));
      assert.equal(owners(one).length, wanted, `${addresses} of ${networks}`);
      const counts = [...one.uses.values()].flatMap((use) => [...use.owners.values()]);
      assert.equal(
        counts.reduce((sum, { evidence }) => sum + evidence.connections, 0),
        10 * addresses,
      );
    }
    const all = new NodeClass();
    for (const peer of many(1_025, 1_025)) add(all, seenKind(peer, 443));
    add(all, seenKind('203.0.113.9', 443));
    assert.deepEqual(owners(all), ['0.0.0.0/0']);
  });

  it('counts flows that are in no rule beyond 5,000, and has those of known owners', () => {
    const one = new NodeClass();
    const other = new NodeClass();
    for (const peer of many(5_001, 4_000)) add(one, seenKind(peer, 443), 'n', 'denied');
    add(one, seenKind('198.0.0.0', 443), 'n', 'denied');
    assert.deepEqual([owners(one).length, one.leftOut], [5_000, 1]);
    other.merge(one);
    assert.deepEqual([owners(other).length, other.leftOut], [5_000, 1]);
  });

  it('has the evidence of all its nodes, and leaves that of others alone', () => {
    const [a, b, both] = [new NodeClass(), new NodeClass(), new NodeClass()];
    for (const port of [22, 22, 80]) add(a, seenKind('198.51.100.1', port), 'a');
    add(b, seenKind('198.51.100.1', 22), 'b');
    for (const one of [a, b]) {
      for (const use of one.uses.values()) use.nodeCount = 1;
      both.merge(one);
    }
    const [use] = both.uses.values();
    const [{ evidence } = { evidence: null }] = use?.owners.values() ?? [];
    assert.deepEqual([use?.nodeCount, evidence?.connections, evidence?.nodes], [2, 30, ['a', 'b']]);
    const [own] = a.uses.values();
    assert.deepEqual(
      [...(own?.owners.values() ?? [])].map((one) => [one.evidence.connections, one.evidence.nodeCount]),
      [[20, 1]],
    );
  });
});
