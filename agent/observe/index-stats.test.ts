import assert from 'node:assert/strict';
import type { CompiledRule, NodeState, PortMatch } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { addressSet, compiledRule, fromSet, peersOf, stateOf } from '../../test/fake/node-state.ts';
import { indexStats, type PartStats } from './index-stats.ts';

/** Without a failsafe list there is one index. */
const CONFIG: Config = { ...DEFAULT_CONFIG, failsafe: { ingress: [], egress: [] } };
const tcp = (first: number, last = first): PortMatch => ({ protocol: 'tcp', ports: [first, last] });

type Changes = Parameters<typeof compiledRule>[1];

/** `count` rules; the rules with `from` each have a set of these addresses. */
function state(
  count: number,
  of: (index: number) => Changes & { readonly from?: readonly string[] },
): NodeState {
  const sets: NodeState['addressSets'] extends ReadonlyMap<string, infer S> ? S[] : never = [];
  const rules = Array.from({ length: count }, (_, i): CompiledRule => {
    const { from, ...changes } = of(i);
    if (from === undefined) return compiledRule(`rule${i}`, changes);
    const id = `set${from.join().replaceAll(/\W/g, '-')}`;
    sets.push(addressSet(id, { members: peersOf(id, ...from).members }));
    return compiledRule(`rule${i}`, { ...changes, peers: fromSet(id) });
  });
  const base = stateOf(rules);
  return {
    ...base,
    addressSets: new Map([...base.addressSets, ...sets.map((set) => [set.id, set] as const)]),
  };
}

function part(
  of: NodeState,
  index = 'ingress',
  protocol: PartStats['protocol'] = 'tcp',
  config = CONFIG,
): PartStats {
  const found = indexStats(of, config).parts.find((one) => one.index === index && one.protocol === protocol);
  assert.ok(found, `${index} ${protocol}`);
  return found;
}

const byPort = state(1000, (i) => ({ services: [tcp(i + 1)] }));

describe('index statistics', () => {
  it('are empty for no rules', () => {
    const { parts, costliest, memory } = indexStats(stateOf([]), CONFIG);
    assert.deepEqual([parts, costliest, memory], [[], [], { index: 0, rules: 0 }]);
  });

  it('of rules on distinct ports: one lookup, one rule tried, one element each', () => {
    const { memory, ...found } = part(byPort);
    assert.deepEqual(found, {
      index: 'ingress',
      protocol: 'tcp',
      rules: 1000,
      way: 'by port',
      pieces: 1,
      tries: { mean: 1, worst: 1 },
      lookups: 1,
      maps: 1,
      elements: 1000,
      listEntries: 0,
      replication: 1000 / 4000,
    });
    assert.ok(memory > 70_000 && memory < 80_000, String(memory));
  });

  it('of sources without ports count for every protocol', () => {
    const found = part(
      state(10, (i) => ({ from: [`10.0.0.${i}`] })),
      'ingress',
      null,
    );
    assert.deepEqual([found.way, found.rules, found.tries.mean, found.elements], ['by address', 10, 1, 10]);
  });

  it('name the first and the second key looked up', () => {
    const ports = (i: number) => ({ services: [tcp(1 + (i % 8))] });
    const found = part(state(48, (i) => ({ ...ports(i), from: [`10.0.0.${Math.floor(i / 8)}`] })));
    assert.deepEqual([found.way, found.lookups], ['by address, then port', 2]);
  });

  it('few rules are tried, and rules for all traffic last', () => {
    const few = part(state(3, (i) => ({ services: [tcp(i + 1)] })));
    assert.deepEqual(
      [few.way, few.tries, few.lookups, few.listEntries],
      ['one by one', { mean: 2, worst: 3 }, 0, 3],
    );
    const last = part(state(7, (i) => (i === 6 ? {} : { services: [tcp(i + 1)] })));
    assert.deepEqual([last.way, last.pieces], ['by port; one by one', 2]);
  });

  it('an Audit rule ends no evaluation: all later rules are tried too', () => {
    const audits = state(4, (i) => ({ services: [tcp(80)], mode: i < 3 ? 'Audit' : 'Enforce' }));
    assert.deepEqual(part(audits).tries, { mean: 4, worst: 4 });
  });

  it('have a part for each index: failsafe, baseline, egress', () => {
    const rules = [
      ...Array.from({ length: 6 }, (_, i) =>
        compiledRule(`a${i}`, { services: [tcp(i + 1)], action: 'Allow' }),
      ),
      compiledRule('pass', { action: 'Pass' }),
      compiledRule('base-api', {
        tier: 'baseline',
        tierPriority: 253,
        services: [tcp(6443)],
        action: 'Allow',
      }),
      compiledRule('base', { tier: 'baseline', tierPriority: 253 }),
      compiledRule('out', {
        source: { direction: 'egress' },
        services: [{ protocol: 'udp', ports: [53, 53] }],
      }),
    ];
    const found = indexStats(stateOf(rules), DEFAULT_CONFIG).parts.map(
      ({ index, protocol }) => `${index} ${protocol ?? 'other'}`,
    );
    assert.deepEqual(found, [
      'ingress tcp',
      'ingress other',
      'ingress-baseline tcp',
      'ingress-baseline other',
      'ingress-baseline-failsafe tcp',
      'egress udp',
    ]);
  });

  it('name the rules with most index entries', () => {
    const wide = state(40, (i) => ({
      services: [i === 7 ? tcp(1, 9000) : tcp(100 * i + 50)],
      mode: i === 7 ? 'Audit' : 'Enforce',
    }));
    const [most, next, ...others] = indexStats(wide, CONFIG).costliest;
    assert.equal(most?.source.rule, 'rule7');
    assert.ok((most?.entries ?? 0) > 10 * (next?.entries ?? 0), `${most?.entries} ${next?.entries}`);
    assert.equal(others.length, 8);
  });

  it('stay within the memory bound of the plan', () => {
    const tangled = state(300, (i) => ({
      services: [tcp(1000 + 100 * i, 60_000)],
      from: [`${1 + (i % 200)}.0.0.0/${1 + (i % 8)}`],
      mode: 'Audit',
    }));
    const found = part(tangled);
    assert.ok(found.pieces > 1, found.way);
    assert.ok(found.replication <= 8, String(found.replication));
  });

  it('count the memory of rules and sets beside that of the index', () => {
    const { memory } = indexStats(
      state(1000, (i) => ({ services: [tcp(i + 1)], from: ['10.0.0.1', '10.0.0.2'] })),
      CONFIG,
    );
    assert.ok(memory.rules > 10 * memory.index, JSON.stringify(memory));
  });
});
