import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { cidr, policy, tcp } from '../../test/kernel/manifests.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import { compile } from '../compile/compile.ts';
import { type ClusterDifference, clusterDifference } from './cluster-difference.ts';

const node = (name: string, ...addresses: readonly string[]) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels: { name } },
  status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
});

const drop = (from: readonly object[], appliedTo?: object) =>
  policy('p', {
    ingress: [{ name: 'r', action: 'Drop', from, ports: [tcp(80)] }],
    ...(appliedTo === undefined ? {} : { appliedTo: [appliedTo] }),
  });

function difference(before: readonly object[], after: readonly object[]): ClusterDifference {
  const [from, to] = [before, after].map((objects) => compile(toClusterObjects(objects)));
  if (from === undefined || to === undefined) throw new Error('nothing compiled');
  // A pod may not have a Node's address as soon as there is a rule: that is another difference.
  return clusterDifference(from, to, { config: { ...DEFAULT_CONFIG, antiSpoofing: false } });
}

/** The peers of each group's rows, by the group's nodes. */
const peers = ({ groups }: ClusterDifference) =>
  Object.fromEntries(
    groups.map(({ nodes, changes }) => [
      nodes.join(),
      changes.map((row) => row.peers?.join() ?? 'any').join(' '),
    ]),
  );

const A = node('a', '10.0.0.1');
const B = node('b', '10.0.0.2');
const C = node('c', '10.0.0.3', 'fd00::3');

describe('the difference of two clusters', () => {
  it('has one group for all Nodes with the same changes', () => {
    const found = difference([A, B, C], [A, B, C, drop([cidr('192.0.2.0/24')])]);
    assert.deepEqual(peers(found), { 'a,b,c': '192.0.2.0-192.0.2.255' });
  });

  it('has a group for each set of Nodes that a rule applies to', () => {
    const nodeSelector = { matchLabels: { name: 'b' } };
    const found = difference([A, B], [A, B, drop([cidr('192.0.2.0/24')], { nodeSelector })]);
    assert.deepEqual(peers(found), { b: '192.0.2.0-192.0.2.255' });
  });

  it('leaves out what concerns only the own addresses of a Node', () => {
    const found = difference([A, B], [A, B, drop([cidr('10.0.0.1/32')])]);
    assert.deepEqual(peers(found), { b: '10.0.0.1-10.0.0.1' });
  });

  it('has only the families of addresses that the Node has', () => {
    const found = difference([A, C], [A, C, drop([cidr('fd00:2::/64')])]);
    assert.deepEqual(peers(found), { c: 'fd00:2::-fd00:2::ffff:ffff:ffff:ffff' });
    assert.deepEqual(peers(difference([A, C], [A, C, drop([cidr('0.0.0.0/0')])])), {
      a: 'any',
      c: '0.0.0.0-255.255.255.255',
    });
  });

  it('has loopback addresses only inside of a range', () => {
    const found = difference([A], [A, drop([cidr('127.0.0.0/8'), cidr('192.0.2.1/32')])]);
    assert.deepEqual(peers(found), { a: '192.0.2.1-192.0.2.1' });
    for (const block of ['127.0.0.0/8', '127.0.0.5/32', '127.128.0.0/9', '::1/128'])
      assert.deepEqual(peers(difference([A, C], [A, C, drop([cidr(block)])])), {}, block);
  });

  it('has one group for Nodes whose rows differ only where an own address of one is left out', () => {
    const own = { ipBlock: { cidr: '10.0.0.0/30', except: ['10.0.0.1/32'] } };
    // A rule without effect, so that the first Node has other rules than the second.
    const other = policy('other', {
      ingress: [{ name: 'o', action: 'Allow', from: [cidr('192.0.2.1/32')] }],
      appliedTo: [{ nodeSelector: { matchLabels: { name: 'a' } } }],
    });
    const found = difference([A, B, C], [A, B, C, drop([own]), other]);
    assert.deepEqual(peers(found), { 'a,b,c': '10.0.0.0-10.0.0.0,10.0.0.2-10.0.0.3' });
    assert.deepEqual(peers(difference([A], [A, drop([own])])), { a: '10.0.0.0-10.0.0.3' });
  });

  it('has no own address of the only Node in two rows', () => {
    const own = cidr('10.0.0.1/32');
    const around = [cidr('10.0.0.0/32'), cidr('10.0.0.2/32')];
    const rules = [
      { name: 'o', action: 'Reject', from: [own, cidr('192.0.2.1/32')], ports: [tcp(80)] },
      { name: 'r', action: 'Drop', from: around, ports: [tcp(80)] },
    ] as const;
    const found = difference([A], [A, policy('p', { ingress: rules })]);
    assert.deepEqual(peers(found), {
      a: '10.0.0.0-10.0.0.0,10.0.0.2-10.0.0.2 10.0.0.1-10.0.0.1,192.0.2.1-192.0.2.1',
    });
  });

  it('takes memory for each link group once', () => {
    const groups = Array.from({ length: 2000 }, (_, i) => 100 + i);
    const allow = groups.map((group) => ({
      name: `r${group}`,
      action: 'Allow' as const,
      from: [{ interfaceGroup: group }],
      ports: [tcp(group)],
    }));
    const rest = policy('rest', { tier: 'baseline', ingress: [{ name: 'rest', action: 'Reject' }] });
    const given = [A, policy('p', { ingress: allow })];
    const [group] = difference(given, [...given, rest]).groups;
    assert.ok((group?.changes.length ?? 0) > groups.length);
  });

  it('names the Nodes that only one state has', () => {
    const { groups, nodesAdded, nodesRemoved } = difference([A, B], [B, C]);
    assert.deepEqual([groups, nodesAdded, nodesRemoved], [[], ['c'], ['a']]);
  });

  it('has no row for another rule with the same verdict', () => {
    const other = policy('other', { ingress: [{ name: 'o', action: 'Drop', ports: [tcp(80)] }] });
    const found = difference([A, drop([cidr('192.0.2.0/24')])], [A, other]);
    assert.deepEqual(peers(found), { a: '0.0.0.0-192.0.1.255,192.0.3.0-255.255.255.255' });
  });
});
