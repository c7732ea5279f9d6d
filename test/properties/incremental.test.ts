import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { Compiled, NodeState } from '../../apis/compiled.ts';
import type { ClusterObject, ClusterObjects } from '../../apis/objects.ts';
import { compile, compiler } from '../../controller/compile/compile.ts';
import { nodeView, nodeViewer } from '../../controller/publish/node-view.ts';
import { scenario } from '../generate/scenario.ts';
import { plainCompiled, plainState, toClusterObjects } from './pipeline.ts';
import { check } from './runs.ts';

/** What happens to the objects: numbers draw which, modulo how many there are. */
type Change =
  | { readonly to: 'gone' | 'back' | 'written again' | 'moved'; readonly kind: Kind; readonly which: number }
  | { readonly to: 'all as the next'; readonly field: Field; readonly which: number }
  | { readonly to: 'as'; readonly field: Field; readonly which: number; readonly as: number };
type Kind = keyof ClusterObjects;

/** What an object may take over from another one of its kind. */
type Field = readonly [Kind, string];
const FIELDS: readonly Field[] = [
  ['pods', 'addresses'],
  ['pods', 'addresses'],
  ['pods', 'labels'],
  ['pods', 'labels'],
  ['namespaces', 'labels'],
  ['nodes', 'labels'],
  ['nodes', 'addresses'],
  ['services', 'selector'],
  ['services', 'clusterIPs'],
  ['endpointSlices', 'addresses'],
  ['groups', 'spec'],
  ['tiers', 'priority'],
  ['policies', 'spec'],
];

/** Of these any may be missing; policies name tiers and groups. */
const FREE: readonly Kind[] = [
  'nodes',
  'namespaces',
  'pods',
  'pods',
  'services',
  'endpointSlices',
  'policies',
  'policies',
];
const ALL: readonly Kind[] = [...FREE, 'groups', 'tiers'];

const CHANGE: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ to: fc.constantFrom('gone', 'back'), kind: fc.constantFrom(...FREE), which: fc.nat() }),
  fc.record({
    to: fc.constantFrom('written again', 'moved'),
    kind: fc.constantFrom(...ALL),
    which: fc.nat(),
  }),
  fc.record({ to: fc.constant('all as the next'), field: fc.constantFrom(...FIELDS), which: fc.nat() }),
  fc.record({ to: fc.constant('as'), field: fc.constantFrom(...FIELDS), which: fc.nat(), as: fc.nat() }),
) as fc.Arbitrary<Change>;

describe('successive states of the objects', function () {
  this.timeout(0);

  it('give the same result as each state alone, and unchanged parts are the same objects', function () {
    const histories = fc.constantFrom(2, 6, 12).chain((size) =>
      fc.record({
        drawn: scenario({ size, flows: 0 }),
        // Several changes at once are one state.
        batches: fc.array(fc.array(CHANGE, { maxLength: 3 }), { minLength: 2, maxLength: 12 }),
      }),
    );
    check(this, 75, histories, ({ drawn, batches }) => {
      const whole = toClusterObjects(drawn.objects);
      const next = compiler();
      const view = nodeViewer(drawn.node);
      let now = whole;
      let last: Outcome | null = null;
      for (const batch of [[], ...batches]) {
        for (const change of batch) now = changed(now, whole, change);
        const compiled = next(now);
        const state = view(compiled);
        const fresh = compile(now);
        assert.deepEqual(plainCompiled(compiled), plainCompiled(fresh));
        assert.deepEqual(inOrder(compiled), inOrder(fresh));
        assert.deepEqual(plainState(state), nodeView(compiled, drawn.node));
        const outcome = { objects: now, compiled, state };
        if (last !== null) sameWhereEqual(last, outcome);
        last = outcome;
      }
    });
  });
});

function changed(now: ClusterObjects, whole: ClusterObjects, change: Change): ClusterObjects {
  if (change.to === 'as') {
    const [kind, name] = change.field;
    const list: readonly ClusterObject[] = now[kind];
    const one = at(list, change.which);
    const other: Record<string, unknown> = { ...at<ClusterObject>(whole[kind], change.as) };
    if (one === undefined || other.kind === undefined) return now;
    return { ...now, [kind]: list.map((each) => (each === one ? { ...one, [name]: other[name] } : each)) };
  }
  if (change.to === 'all as the next') {
    // So many at once that they are not followed one by one.
    const [kind, name] = change.field;
    const list: readonly ClusterObject[] = now[kind];
    const from = (i: number): Record<string, unknown> => ({ ...at(list, i + 1 + (change.which % 3)) });
    return { ...now, [kind]: list.map((one, i) => ({ ...one, [name]: from(i)[name] })) };
  }
  const { kind, which } = change;
  const list: readonly ClusterObject[] = now[kind];
  switch (change.to) {
    case 'gone':
      return { ...now, [kind]: list.filter((one) => one !== at(list, which)) };
    case 'back': {
      const missing = (whole[kind] as readonly ClusterObject[]).filter(
        (one) => !list.some((other) => identity(other) === identity(one)),
      );
      return { ...now, [kind]: [...list, ...missing.slice(0, 1 + (which % 3))] };
    }
    case 'written again':
      return { ...now, [kind]: list.map((one) => (one === at(list, which) ? structuredClone(one) : one)) };
    case 'moved': {
      const one = at(list, which);
      return { ...now, [kind]: one === undefined ? list : [one, ...list.filter((other) => other !== one)] };
    }
  }
}

function at<T>(list: readonly T[], which: number): T | undefined {
  return list[which % Math.max(1, list.length)];
}

function identity(object: ClusterObject): string {
  return [
    object.kind,
    'apiGroup' in object ? object.apiGroup : '',
    'namespace' in object ? object.namespace : '',
    object.name,
  ].join('|');
}

interface Outcome {
  readonly objects: ClusterObjects;
  readonly compiled: Compiled;
  readonly state: NodeState;
}

function spansOf({ policies }: Compiled): Map<string, ReadonlySet<string> | undefined> {
  return new Map(policies.flatMap(({ rules, spans }) => rules.map(({ id }, i) => [id, spans[i]])));
}

/** What deepEqual does not look at in a Map or a Set. */
function inOrder({ addressSets, serviceSets, policies, nodeAddresses }: Compiled): unknown {
  const spans = policies.map((policy) => policy.spans.map((span) => [...span]));
  return [[...addressSets.keys()], [...serviceSets.keys()], spans, new Set(nodeAddresses.keys())];
}

/** Later stages skip what is the same object. */
function sameWhereEqual(before: Outcome, now: Outcome): void {
  const same = (a: unknown, b: unknown, what: string): void => {
    if (isDeepStrictEqual(a, b)) assert.equal(a, b, `${what} did not change`);
  };
  for (const key of ['addressSets', 'serviceSets', 'nodeAddresses'] as const) {
    const [is, was] = [now.compiled[key], before.compiled[key]];
    if (isDeepStrictEqual(new Map<string, unknown>(is), new Map<string, unknown>(was)))
      assert.equal(is, was, `compiled ${key} did not change`);
  }
  for (const [id, set] of now.compiled.addressSets)
    same(set, before.compiled.addressSets.get(id), `AddressSet ${id} of all`);
  // Other selectors that come to the same nodes are another span.
  if (now.objects.policies === before.objects.policies && now.objects.groups === before.objects.groups) {
    const spans = spansOf(before.compiled);
    for (const [id, span] of spansOf(now.compiled)) same(span, spans.get(id), `the span of rule ${id}`);
  }
  for (const key of ['rules', 'addressSets', 'serviceSets'] as const) {
    same(now.state[key], before.state[key], key);
  }
  same(now.state, before.state, 'the state');
  for (const [id, set] of now.state.addressSets)
    same(set, before.state.addressSets.get(id), `AddressSet ${id}`);
  for (const [id, set] of now.state.serviceSets)
    same(set, before.state.serviceSets.get(id), `ServiceSet ${id}`);
  const rules = new Map(before.state.rules.map((rule) => [rule.id, rule]));
  for (const rule of now.state.rules) same(rule, rules.get(rule.id), `rule ${rule.id}`);
}
