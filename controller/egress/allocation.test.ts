import assert from 'node:assert/strict';
import type { EgressGateway, EgressPolicy } from '../../apis/egress/objects.ts';
import {
  fakeGateway as gateway,
  fakeNode as node,
  fakePolicy as policy,
} from '../../test/fake/egress-objects.ts';
import { type Allocation, allocate, type EgressPath } from './allocation.ts';

const NODES = ['n1', 'n2', 'n3'].map((name, i) => node(name, [`10.0.0.${i + 1}`]));
const RANGES = ['198.51.100.1-198.51.100.4'];
const DEDICATED = { address: { allocation: 'Dedicated', fixed: {}, count: 1 } } as const;

const fixed = (name: string, ipv4: string, addresses?: readonly string[]): EgressPolicy =>
  policy(name, { address: { allocation: 'Fixed', fixed: { ipv4 }, count: 1 } }, addresses);

function pathText(path: EgressPath | undefined): string {
  if (path === undefined) return 'none';
  if (path.kind === 'unavailable') return path.reason;
  if (path.kind === 'node') return path.nodes.map(({ name }) => name).join();
  return path.parts.flatMap(({ addresses }) => addresses).join();
}

/** The addresses of a family that each policy has, by name. */
function dealt({ paths }: Allocation, family: 4 | 6 = 4): Record<string, string> {
  return Object.fromEntries([...paths].map(([{ name }, path]) => [name, pathText(path[family])]));
}

function ownerOf({ slots }: Allocation, address: string): string | undefined {
  return slots.find(({ addresses }) => addresses.includes(address))?.node;
}

describe('the allocation of a gateway', () => {
  const floating = (more: object = {}, status: EgressGateway['status'] = null) =>
    gateway('g', { ranges: RANGES, ...more }, status);

  it('gives Shared policies one address, Dedicated ones their own, until none is left', () => {
    const policies = [
      policy('a', DEDICATED),
      policy('b'),
      policy('c'),
      policy('d', { address: { ...DEDICATED.address, count: 2 } }),
      policy('e', DEDICATED),
    ];
    assert.deepEqual(dealt(allocate(floating(), NODES, policies)), {
      a: '198.51.100.2',
      b: '198.51.100.1',
      c: '198.51.100.1',
      d: '198.51.100.3,198.51.100.4',
      e: 'no-address',
    });
    assert.deepEqual(dealt(allocate(floating(), NODES, policies), 6).b, 'no-family');
  });

  it('reserves Fixed addresses first, each for one policy', () => {
    const policies = [
      policy('shared'),
      fixed('a', '198.51.100.1'),
      fixed('b', '198.51.100.1'),
      fixed('c', '198.51.100.9'),
    ];
    const allocation = allocate(floating(), NODES, policies);
    assert.deepEqual(dealt(allocation), {
      shared: '198.51.100.2',
      a: '198.51.100.1',
      b: 'no-address',
      c: 'no-address',
    });
    assert.equal(dealt(allocation, 6).a, 'no-family');
  });

  it('keeps the addresses of statuses that the pool still has', () => {
    const policies = [
      policy('a', DEDICATED),
      policy('b', DEDICATED, ['198.51.100.1']),
      policy('c', {}, ['198.51.100.4']),
      policy('d'),
      policy('e', DEDICATED, ['198.51.100.77']),
      fixed('f', '198.51.100.1'),
    ];
    assert.deepEqual(dealt(allocate(floating(), NODES, policies)), {
      a: '198.51.100.2',
      b: '198.51.100.1',
      c: '198.51.100.4',
      d: '198.51.100.4',
      e: '198.51.100.3',
      f: 'no-address',
    });
  });

  it('makes two slots for each candidate, spread over those that are ready', () => {
    const status = { nodes: [{ name: 'n2', ready: false }], slots: [] };
    const { slots } = allocate(floating({}, status), NODES, []);
    const count = (name: string) => slots.filter((slot) => slot.node === name).length;
    assert.deepEqual([slots.length, count('n1'), count('n2'), count('n3')], [6, 3, 0, 3]);
    assert.equal(allocate(floating(), [], []).slots.length, 1);
    const many = Array.from({ length: 50 }, (_, i) => node(`m${i}`, []));
    assert.equal(allocate(floating(), many, []).slots.length, 64);
  });

  it('leaves slots where the status has them, and drops while their owner is not ready', () => {
    const slots = [
      { name: 'x', node: 'n3', epoch: 4, addresses: ['198.51.100.1'] },
      { name: 'y', node: 'n2', epoch: 4, addresses: ['198.51.100.2'] },
      { name: 'z', node: 'gone', epoch: 1, addresses: ['198.51.100.3'] },
      { name: 'w', node: '', epoch: 1, addresses: ['198.51.100.4'] },
    ];
    const status = { nodes: [{ name: 'n2', ready: false }], slots };
    const policies = [1, 2, 3, 4].map((i) => fixed(`p${i}`, `198.51.100.${i}`));
    const allocation = allocate(floating({}, status), NODES, policies);
    assert.deepEqual(dealt(allocation), {
      p1: '198.51.100.1',
      p2: 'not-ready',
      p3: 'not-ready',
      p4: '198.51.100.4',
    });
    assert.equal(ownerOf(allocation, '198.51.100.1'), 'n3');
    // A Shared policy without a status has an address that the gateway's status names.
    assert.equal(dealt(allocate(floating({}, status), NODES, [policy('s')])).s, '198.51.100.1');
  });

  it('gives a new address to a slot whose owner is ready', () => {
    const slots = Array.from({ length: 6 }, (_, i) => ({
      name: String(i),
      node: 'n2',
      epoch: 1,
      addresses: [],
    }));
    const status = { nodes: [{ name: 'n2', ready: false }], slots };
    assert.equal(dealt(allocate(floating({}, status), NODES, [policy('s')])).s, '198.51.100.1');
  });

  it('gives only what statuses have, where it is asked for that', () => {
    const addresses = [
      { address: '198.51.100.1', policy: '' },
      { address: '198.51.100.2', policy: 'a' },
    ];
    const status = { nodes: [], slots: [], addresses };
    const policies = [
      policy('a', DEDICATED),
      policy('b', DEDICATED),
      policy('s'),
      fixed('f', '198.51.100.4'),
    ];
    const told = policy('t', DEDICATED, ['198.51.100.3']);
    const allocation = allocate(floating({}, status), NODES, [...policies, told], 'written');
    assert.deepEqual(dealt(allocation), {
      a: '198.51.100.2',
      b: 'no-address',
      s: '198.51.100.1',
      f: 'no-address',
      t: '198.51.100.3',
    });
    assert.equal(ownerOf(allocation, '198.51.100.4'), undefined);
    assert.equal(dealt(allocate(floating(), NODES, policies, 'written')).s, 'no-address');
  });

  it('spreads addresses evenly over the slots', () => {
    const wide = floating({ ranges: ['198.51.100.0/24'] });
    const policies = Array.from({ length: 100 }, (_, i) => policy(`p${i}`, DEDICATED));
    const loads = allocate(wide, NODES, policies).slots.map(({ addresses }) => addresses.length);
    assert.deepEqual([...new Set(loads)].sort(), [16, 17]);
  });

  it('has no addresses of its own with source Node', () => {
    const own = gateway('g', { source: 'Node' });
    const policies = [policy('shared'), policy('dedicated', DEDICATED), fixed('fixed', '198.51.100.1')];
    const allocation = allocate(own, NODES.slice(0, 1), policies);
    assert.deepEqual(dealt(allocation), { shared: 'n1', dedicated: 'no-family', fixed: 'no-family' });
    assert.deepEqual(dealt(allocate(own, [], policies)).shared, 'not-ready');
    assert.deepEqual(dealt(allocation, 6).shared, 'no-family');
  });

  it('stays on the owner of the status with source Node, while it is ready', () => {
    for (const name of ['n1', 'n2', 'n3']) {
      const slots = [{ name: '0', node: name, epoch: 1, addresses: [] }];
      const of = (ready: boolean) =>
        allocate(gateway('g', { source: 'Node' }, { nodes: [{ name, ready }], slots }), NODES, [policy('p')]);
      assert.equal(dealt(of(true)).p, name);
      assert.notEqual(dealt(of(false)).p, name);
    }
  });
});
