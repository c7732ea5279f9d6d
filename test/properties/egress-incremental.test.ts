import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { EgressArrival, EgressTake, NodeEgress } from '../../apis/egress/node-egress.ts';
import {
  type CompiledEgress,
  compileEgress,
  type EgressInput,
  egressCompiler,
} from '../../controller/egress/compile-egress.ts';
import { nodeEgressCompiler } from '../../controller/egress/node-egress.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import { egressScenario } from '../generate/egress/egress-scenario.ts';
import { toEgressInput } from './egress-agree.ts';
import { toConfig } from './pipeline.ts';
import { check } from './runs.ts';

/** Numbers draw which objects are missing from a state, or have the spec or status of another. */
interface Change {
  readonly kind: keyof EgressInput;
  readonly to: 'gone' | 'back' | 'written again' | 'as the next' | 'shuffled';
  readonly which: number;
}

const KINDS = [
  'nodes',
  'namespaces',
  'pods',
  'pods',
  'egressGateways',
  'egressPolicies',
  'egressPolicies',
  'insideNetworks',
] as const;

const CHANGE: fc.Arbitrary<Change> = fc.record({
  kind: fc.constantFrom(...KINDS),
  to: fc.constantFrom('gone', 'gone', 'back', 'written again', 'as the next', 'shuffled'),
  which: fc.nat(1000),
});

describe('egress gateways, state after state', function () {
  this.timeout(0);

  it('are compiled as from nothing, and unchanged parts stay the same objects', function () {
    const drawn = fc.tuple(egressScenario(6, 0), fc.array(CHANGE, { minLength: 1, maxLength: 12 }));
    check(this, 60, drawn, ([{ objects, config }, changes]) => {
      const all = toEgressInput(objects);
      const settings = toConfig(config).egress;
      const compile = egressCompiler(settings);
      const views = nodeEgressCompiler();
      let now = all;
      for (const change of [null, ...changes]) {
        now = change === null ? now : changed(now, all, change);
        const compiled = compile(now);
        const scratch = compileEgress(now, settings);
        assert.deepEqual(plainCompiled(compiled), plainCompiled(scratch), JSON.stringify(change));
        const seen = views(compiled);
        const anew = nodeEgressCompiler()(scratch);
        assert.deepEqual([...seen.keys()].sort(), [...anew.keys()].sort());
        for (const [node, view] of anew) {
          const there = seen.get(node);
          assert.deepEqual(there && plainView(there), plainView(view), `${node} ${JSON.stringify(change)}`);
        }
        // Equal objects in equal lists.
        assert.equal(views(compile({ ...now, pods: [...now.pods] })), seen);
        if (change?.to === 'written again' || change?.to === 'shuffled') continue;
        for (const [node, view] of views(compile(now))) assert.equal(view, seen.get(node));
      }
    });
  });
});

function changed(now: EgressInput, all: EgressInput, { kind, to, which }: Change): EgressInput {
  return { ...now, [kind]: changedList<object>(now[kind], all[kind], to, which) };
}

function changedList<T extends object>(
  now: readonly T[],
  all: readonly T[],
  to: Change['to'],
  which: number,
): readonly T[] {
  const one = now[which % Math.max(1, now.length)];
  const next = now[(which + 1) % Math.max(1, now.length)];
  if (to === 'back') return [...all];
  if (one === undefined || next === undefined) return now;
  switch (to) {
    case 'gone':
      return now.filter((other) => other !== one);
    case 'written again':
      return now.map((other) => (other === one ? structuredClone(one) : other));
    case 'shuffled':
      return [...now.slice(which % now.length), ...now.slice(0, which % now.length)];
    case 'as the next': {
      const { kind, name, namespace, apiGroup, ...rest } = next as Record<string, unknown>;
      return now.map((other) => (other === one ? { ...one, ...rest } : other));
    }
  }
}

function plainCompiled(compiled: CompiledEgress): object {
  const { inside, ways, allocations, decisions, classes, ...rest } = compiled;
  return {
    ...rest,
    nodes: null,
    inside: { ...inside, members: formatMembers(inside.members), nodes: formatMembers(inside.nodes) },
    ways: new Map([...ways].map(([key, way]) => [key, [way.gateway?.name, way.paths]])),
    slots: allocations.map(({ slots, candidates }) => [slots, candidates]),
    decisions: new Map(
      [...decisions].map(([id, { policy, audited }]) => [id, [policy?.name, audited.length]]),
    ),
    classes,
    policies: rest.policies.map(({ namespace, name, spec }) => [namespace, name, spec]),
  };
}

/** Without the numbers of slots and takes, which a node keeps. */
function plainView(view: NodeEgress): object {
  const take = (number: number): EgressTake | undefined => view.takes.get(number);
  const slot = (number: number) => {
    const { node, take: own } = view.slots.get(number) ?? { node: '', take: -1 };
    return [node, own === 0 ? 'tunnel' : JSON.stringify(take(own))].join();
  };
  const outcomes = [...view.outcomes.values()].map(({ action, ...outcome }) => ({
    ...outcome,
    action:
      action.kind === 'slots'
        ? [action.slots.map(slot).sort(), action.reserve?.map(slot), action.otherwise]
        : action.kind === 'take'
          ? take(action.take)
          : action,
  }));
  const plainTakes = (takes: EgressArrival['takes']) =>
    takes.map((one) => ({ range: one.range, take: take(one.take) }));
  const arrivals = [...view.arrivals].map(([address, { node, takes }]): [string, unknown] => [
    address,
    { node, takes: plainTakes(takes) },
  ]);
  const served = [...view.served].map(([id, { nodes, ipv4, ipv6 }]): [string, unknown] => [
    id,
    { nodes, ipv4: plainTakes(ipv4), ipv6: plainTakes(ipv6) },
  ]);
  return {
    ...view,
    inside: formatMembers(view.inside),
    nodes: formatMembers(view.nodes),
    floating: formatMembers(view.floating),
    outcomes: new Map(outcomes.map((outcome) => [outcome.id, outcome])),
    arrivals: new Map(arrivals),
    served: new Map(served),
    slots: view.slots.size,
    takes: new Set([...view.takes.values()].map((one) => JSON.stringify(one))),
  };
}
