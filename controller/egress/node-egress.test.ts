import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { BY_ADDRESS, MOST_SLOTS, type NodeEgress } from '../../apis/egress/node-egress.ts';
import type { EgressPolicySpec } from '../../apis/egress/objects.ts';
import {
  egressInput,
  fakeGateway as gateway,
  fakeNode as node,
  fakePod as pod,
  fakePolicy as policy,
} from '../../test/fake/egress-objects.ts';
import { type EgressInput, egressCompiler } from './compile-egress.ts';
import { nodeEgressCompiler, nodeEgressViewer } from './node-egress.ts';

const GATEWAY = gateway('g', { ranges: ['198.51.100.1'], default: true });
const WORKER = node('w', ['10.0.0.9'], { labels: {}, podCIDRs: ['10.244.9.0/24'] });
const OBJECTS = egressInput({
  nodes: [node('g1', ['10.0.0.1'], { podCIDRs: ['10.244.1.0/24'] }), WORKER],
  pods: [
    pod('shop/far', ['10.244.9.7'], { node: 'w' }),
    pod('shop/near', ['10.244.1.7'], { node: 'g1' }),
    pod('bank/other', ['10.244.9.8'], { node: 'w' }),
  ],
  egressGateways: [GATEWAY],
  egressPolicies: [policy('shop/p', { to: ['1.0.0.0/8'] })],
});

function view(objects: EgressInput, name: string): NodeEgress {
  const seen = nodeEgressViewer(DEFAULT_EGRESS_CONFIG, name)(objects);
  assert.ok(seen);
  return seen;
}

describe('what a node does for egress gateways', () => {
  it('is to steer its pods into the tunnel', () => {
    const { sources, classes, outcomes, slots, peers, tunnel, takes, floating } = view(OBJECTS, 'w');
    const id = sources.get('10.244.9.7') ?? '';
    assert.deepEqual([...sources.keys()].sort(), ['10.244.9.7', '10.244.9.8']);
    assert.equal(sources.get('10.244.9.8'), null);
    assert.deepEqual(
      classes.get(id)?.ipv4.map(({ range }) => range),
      [{ first: 0x1000000n, last: 0x1ffffffn }],
    );
    const [outcome] = outcomes.values();
    const [slot] = slots.values();
    assert.deepEqual(outcome?.action, { kind: 'slots', slots: [slot?.number] });
    assert.deepEqual([slot?.node, slot?.take], ['g1', 0]);
    assert.deepEqual([...peers.keys()], ['g1']);
    assert.match(tunnel?.mac ?? '', /^0e(:[0-9a-f]{2}){5}$/);
    assert.deepEqual([takes.size, floating.v4.singles.length], [0, 0]);
  });

  it('has its pods before they have addresses, and gateways their classes', () => {
    const pods = [
      pod('shop/new', [], { node: 'w', uid: 'u1' }),
      pod('bank/new', [], { node: 'w' }),
      pod('shop/near', [], { node: 'g1' }),
      pod('shop/waiting', []),
      pod('shop/host', [], { node: 'w', hostNetwork: true }),
    ];
    const views = nodeEgressCompiler();
    const compile = egressCompiler(DEFAULT_EGRESS_CONFIG);
    const { w, g1 } = Object.fromEntries(views(compile({ ...OBJECTS, pods })));
    const [id = ''] = w?.classes.keys() ?? [];
    assert.deepEqual(Object.fromEntries(w?.pods ?? []), { 'shop/new/u1': id, 'bank/new/': null });
    assert.deepEqual([w?.sources.size, g1?.arrivals.size], [0, 0]);
    assert.deepEqual([...(g1?.peers.keys() ?? [])], ['w']);
    const [[number] = [0]] = g1?.takes ?? [];
    const takes = [{ range: { first: 0x1000000n, last: 0x1ffffffn }, take: number }];
    assert.deepEqual(Object.fromEntries(g1?.served ?? []), { [id]: { nodes: ['w'], ipv4: takes, ipv6: [] } });
    const gone = views(compile({ ...OBJECTS, pods: [] }));
    assert.deepEqual([gone.get('w')?.pods.size, gone.get('g1')?.served.size], [0, 0]);
  });

  it('leaves the class of a pod open where its address decides besides', () => {
    const subnets = policy('all', { to: ['2.0.0.0/8'], appliedTo: [{ podSubnets: ['10.244.9.0/25'] }] });
    const pods = [pod('shop/new', [], { node: 'w' }), pod('shop/old', ['10.244.9.7'], { node: 'w' })];
    const objects = { ...OBJECTS, pods, egressPolicies: [...OBJECTS.egressPolicies, subnets] };
    const { pods: open, sources, classes } = view(objects, 'w');
    assert.deepEqual([...open.values()], [BY_ADDRESS, BY_ADDRESS]);
    assert.ok(classes.has(sources.get('10.244.9.7') ?? ''));
  });

  it('is to take what comes for a gateway, and its own pods without the tunnel', () => {
    const { outcomes, takes, arrivals, owned, slots } = view(OBJECTS, 'g1');
    const [[number, take] = [0, null]] = takes;
    assert.deepEqual(take, { kind: 'floating', ipv4: ['198.51.100.1'], ipv6: [] });
    assert.deepEqual(
      [...outcomes.values()].map(({ action }) => action),
      [{ kind: 'take', take: number }],
    );
    assert.deepEqual([...arrivals.keys()], ['10.244.9.7']);
    assert.deepEqual(arrivals.get('10.244.9.7')?.node, 'w');
    assert.deepEqual(
      owned.map(({ addresses, announce }) => [addresses, announce]),
      [[['198.51.100.1'], 'L2']],
    );
    assert.equal(slots.size, 0);
  });

  it('is to take with one take what comes by several of its slots', () => {
    const [first, second] = ['198.51.100.1', '198.51.100.2'] as const;
    const slots = [first, second].map((address, i) => ({
      name: `${i}`,
      node: 'g1',
      epoch: 1,
      addresses: [address],
    }));
    const spec = { ranges: ['198.51.100.1-198.51.100.2'], default: true };
    const two = gateway('g', spec, { nodes: [], slots });
    const address = { allocation: 'Dedicated', count: 2, fixed: {} } as const;
    const dedicated = policy('shop/p', { address, to: ['1.0.0.0/8'] });
    const objects = { ...OBJECTS, egressGateways: [two], egressPolicies: [dedicated] };
    assert.equal(view(objects, 'w').slots.size, 2);
    const { takes, arrivals } = view(objects, 'g1');
    assert.deepEqual([...takes.values()], [{ kind: 'floating', ipv4: [first, second], ipv6: [] }]);
    assert.equal(arrivals.get('10.244.9.7')?.takes.length, 1);
  });

  it('has the nodes of a Spread as slots, itself among them', () => {
    const spread = gateway('g', { source: 'Node', choice: 'Spread', default: true });
    const nodes = [...OBJECTS.nodes, node('g2', ['10.0.0.2'])];
    const seen = view({ ...OBJECTS, nodes, egressGateways: [spread] }, 'g1');
    const [[take = 0] = []] = seen.takes;
    assert.deepEqual([...seen.slots.values()].map((slot) => [slot.node, slot.take]).sort(), [
      ['g1', take],
      ['g2', 0],
    ]);
  });

  it('has the next nodes of a gateway in reserve, which serve its pods in advance', () => {
    const gateways = [gateway('g', { source: 'Node', default: true })];
    const more = ['g2', 'g3', 'g4'].map((name, i) => node(name, [`10.0.0.${i + 2}`]));
    const policies = [policy('shop/p', { to: ['1.0.0.0/8'], whenUnavailable: 'Direct' })];
    const objects = {
      ...OBJECTS,
      nodes: [...OBJECTS.nodes, ...more],
      egressGateways: gateways,
      egressPolicies: policies,
    };
    const { outcomes, slots } = view(objects, 'w');
    const [outcome] = outcomes.values();
    assert.ok(outcome?.action.kind === 'slots' && outcome.action.reserve !== undefined);
    const { slots: first, reserve, otherwise } = outcome.action;
    const names = [...first, ...reserve].map((number) => slots.get(number)?.node ?? '');
    assert.deepEqual([first.length, new Set(names).size, otherwise], [1, 3, 'Direct']);
    for (const name of names) assert.ok(view(objects, name).arrivals.has('10.244.9.7'), name);
    // The order is that in which the controller chooses the next owner.
    const status = { nodes: [{ name: names[0] ?? '', ready: false }], slots: [] };
    const next = view(
      { ...objects, egressGateways: [gateway('g', { source: 'Node', default: true }, status)] },
      'w',
    );
    assert.equal(
      [...next.slots.values()].find(({ number }) =>
        [...next.outcomes.values()].some(
          ({ action }) => action.kind === 'slots' && action.slots.includes(number),
        ),
      )?.node,
      names[1],
    );
  });

  it('drops where no slot is left, and names the policies', () => {
    const count = MOST_SLOTS + 2;
    const list = Array.from({ length: count }, (_, i) => i);
    const nodes = [WORKER, ...list.map((i) => node(`g${i}`, [`10.0.1.${i}`], { labels: { g: `${i}` } }))];
    const egressGateways = list.map((i) =>
      gateway(`g${i}`, { ranges: [`198.51.100.${i}`], nodeSelector: { matchLabels: { g: `${i}` } } }),
    );
    const egressPolicies = list.map((i) => policy(`shop/p${i}`, { gateway: `g${i}`, to: [`1.${i}.0.0/16`] }));
    const seen = view({ ...OBJECTS, nodes, egressGateways, egressPolicies }, 'w');
    assert.equal(seen.slots.size, MOST_SLOTS);
    assert.equal(seen.refused?.length, 2);
    const drops = [...seen.outcomes.values()].filter(({ action }) => action.kind === 'drop');
    assert.deepEqual(
      drops.map(({ action }) => action),
      Array(2).fill({ kind: 'drop', reason: 'no-route' }),
    );
  });

  it('refuses as a gateway what it has no take for, and names the policies', () => {
    const count = MOST_SLOTS + 3;
    const ranges = [`198.51.100.1-198.51.100.${count}`];
    const address = { allocation: 'Dedicated', fixed: {}, count: 1 } as const;
    const egressPolicies = Array.from({ length: count }, (_, i) =>
      policy(`shop/p${i}`, { address, to: [`1.${i}.0.0/16`] }),
    );
    const egressGateways = [gateway('g', { ranges, default: true })];
    const seen = view({ ...OBJECTS, egressGateways, egressPolicies }, 'g1');
    assert.deepEqual([seen.takes.size, seen.refused?.length], [MOST_SLOTS, 3]);
    assert.equal(seen.arrivals.get('10.244.9.7')?.takes.length, MOST_SLOTS);
    const drops = [...seen.outcomes.values()].filter(({ action }) => action.kind === 'drop');
    assert.deepEqual(
      drops.map(({ policy: by }) => by?.name).sort(),
      seen.refused?.map(({ name }) => name),
    );
  });

  it('drops without an end of the tunnel', () => {
    const nodes = OBJECTS.nodes.map(({ internalAddresses, ...rest }) =>
      rest.name === 'w' ? rest : { ...rest, internalAddresses: internalAddresses ?? [] },
    );
    const { tunnel, outcomes } = view({ ...OBJECTS, nodes }, 'w');
    assert.equal(tunnel, null);
    assert.deepEqual(
      [...outcomes.values()].map(({ action }) => action),
      [{ kind: 'drop', reason: 'no-route' }],
    );
  });

  it('keeps the numbers of slots, and the states of nodes that a change does not concern', () => {
    const compile = egressCompiler(DEFAULT_EGRESS_CONFIG);
    const views = nodeEgressCompiler();
    const before = views(compile(OBJECTS));
    const more = { ...OBJECTS, pods: [...OBJECTS.pods, pod('bank/new', ['10.244.9.9'], { node: 'w' })] };
    const after = views(compile(more));
    assert.equal(after.get('g1'), before.get('g1'));
    assert.notEqual(after.get('w'), before.get('w'));
    assert.equal(after.get('w')?.slots, before.get('w')?.slots);
    assert.equal(after.get('w')?.classes, before.get('w')?.classes);
  });

  it('shares what it has with nodes that have the same, before and after an edit', () => {
    const compile = egressCompiler(DEFAULT_EGRESS_CONFIG);
    const views = nodeEgressCompiler();
    const nodes = [...OBJECTS.nodes, node('v', ['10.0.0.8'], { labels: {}, podCIDRs: ['10.244.8.0/24'] })];
    const pods = [...OBJECTS.pods, pod('shop/two', ['10.244.8.7'], { node: 'v' })];
    const other = policy('shop/q', { to: ['2.0.0.0/8'] });
    const at = (spec: Partial<EgressPolicySpec>): ReadonlyMap<string, NodeEgress> =>
      views(compile({ ...OBJECTS, nodes, pods, egressPolicies: [policy('shop/p', spec), { ...other }] }));
    const outcomes = (of: ReadonlyMap<string, NodeEgress>, name: string) =>
      new Map([...(of.get(name)?.outcomes.values() ?? [])].map((one) => [one.policy?.name, one]));
    const states = [
      { to: ['1.0.0.0/8'] },
      { to: ['1.1.0.0/16'] },
      { to: ['1.1.0.0/16'], established: 'Recheck' },
    ];
    const seen = states.map((spec) => at(spec as Partial<EgressPolicySpec>));
    for (const state of seen) {
      const [v, w] = ['v', 'w'].map((name) => outcomes(state, name));
      assert.deepEqual([...(v?.keys() ?? [])].sort(), ['p', 'q']);
      for (const [name, outcome] of v ?? []) assert.equal(w?.get(name), outcome);
      assert.deepEqual(
        [...(state.get('v')?.classes.values() ?? [])],
        [...(state.get('w')?.classes.values() ?? [])],
      );
    }
    const [first, edited, rechecked] = seen.map((state) => outcomes(state, 'w'));
    assert.equal(edited?.get('p'), first?.get('p'), 'other destinations, and the same outcome');
    assert.equal(rechecked?.get('q'), first?.get('q'));
    assert.equal(rechecked?.get('p')?.established, 'Recheck');
    assert.equal(seen[2]?.get('w')?.classes, seen[1]?.get('w')?.classes);
  });

  it('has another peer where the gateway’s owner is another node', () => {
    const nodes = [...OBJECTS.nodes, node('g2', ['10.0.0.2'], { podCIDRs: ['10.244.2.0/24'] })];
    const views = nodeEgressCompiler();
    const compile = egressCompiler(DEFAULT_EGRESS_CONFIG);
    const peers = (owner: string): string[] => {
      const slots = [{ name: '0', node: owner, epoch: 1, addresses: ['198.51.100.1'] }];
      const owned = { ...GATEWAY, status: { nodes: [], slots } };
      return [
        ...(views(compile({ ...OBJECTS, nodes, egressGateways: [owned] }))
          .get('w')
          ?.peers.keys() ?? []),
      ];
    };
    assert.deepEqual([peers('g1'), peers('g2')], [['g1'], ['g2']]);
  });
});
