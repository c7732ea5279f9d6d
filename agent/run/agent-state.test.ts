import assert from 'node:assert/strict';
import type { NodeState } from '../../apis/compiled.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import type { Folded } from '../receive/fold.ts';
import type { OutageState } from '../receive/outage.ts';
import {
  type AgentState,
  type EnforcementTarget,
  gateOf,
  initialState,
  nextSteps,
  revisionInForce,
  whyNone,
} from './agent-state.ts';

const LAST = nodeState(closing('last', 22));
const NOW = nodeState(closing('now', 23));
const OFF = { reason: 'locked out', since: '', by: '' };
const START = initialState({ isAllowed: true, last: LAST, rememberedGate: null, off: null });

const folded = (enabled: boolean, state = NOW, revision = 'e.1'): Folded => ({
  state,
  enabled,
  endpoints: [],
  revision,
});
const seen = (gate: boolean | null, controllers: OutageState['controllers'] = null): OutageState => ({
  gate,
  controllers,
  deleted: null,
});
const target = (state: NodeState, by: OutageState = START.seen): EnforcementTarget => ({
  wanted: state,
  received: state,
  revision: null,
  seen: by,
  places: START.places,
});
const others = (state: AgentState): EnforcementTarget => {
  const last = nextSteps(state).at(-1);
  return last?.kind === 'enforce' ? last.target : assert.fail();
};
const controllersOf = ({ wanted: state }: EnforcementTarget): readonly string[] =>
  formatMembers(state.addressSets.get(state.controllers)?.members ?? assert.fail());
const words = (state: AgentState): string =>
  nextSteps(state)
    .map((step) => {
      if (step.kind === 'clear') return `clear: ${step.why}`;
      if (step.kind !== 'enforce') return step.kind;
      return `enforce ${step.target.wanted === NOW ? 'now' : step.target.wanted === LAST ? 'last' : 'other'}`;
    })
    .join(', ');

describe('the gate', () => {
  for (const [what, more, gate] of [
    ['is not known before anybody says it', {}, null],
    ['is what an earlier run heard', { rememberedGate: false }, false],
    ['is what the controller says rather than that', { rememberedGate: false, folded: folded(true) }, true],
    ['is what the API server says rather than both', { folded: folded(true), seen: seen(false) }, false],
  ] as const) {
    it(what, () => assert.equal(gateOf({ ...START, ...more }), gate));
  }
});

describe('why nothing is enforced', () => {
  for (const [what, more, why] of [
    ['nobody forbids it', {}, null],
    ['the machine', { isAllowed: false, off: OFF, rememberedGate: false }, 'machine'],
    ['the command', { off: OFF, rememberedGate: false }, 'off'],
    ['the wait after `nodewall on`', { isWaiting: true, rememberedGate: false }, 'off'],
    ['the gate', { rememberedGate: false }, 'gate'],
  ] as const) {
    it(`is ${what}`, () => assert.equal(whyNone({ ...START, ...more }), why));
  }
});

describe('the steps', () => {
  const isOn = { isEnforcing: true, submitted: target(NOW) };
  for (const [what, more, expected] of [
    ['are none while nobody knows what is wanted', {}, ''],
    ['are none of that where an enforcement runs', isOn, ''],
    ['enforce what was enforced last, once it is used', { isLastUsed: true }, 'start, enforce last'],
    ['enforce nothing saved where nothing is saved', { isLastUsed: true, last: null }, ''],
    ['enforce what the controller says', { folded: folded(true) }, 'start, enforce now'],
    ['enforce it rather than the last', { folded: folded(true), isLastUsed: true }, 'start, enforce now'],
    ['enforce the last where the API server has the gate on', { seen: seen(true) }, 'start, enforce last'],
    ['keep the enforcement that runs', { ...isOn, folded: folded(true) }, 'enforce now'],
    [
      'enforce the same with another control plane',
      { ...isOn, folded: folded(true), places: [{ protocol: 'tcp', ports: [6443, 6443], peers: 'any' }] },
      'enforce other',
    ],
    ['take all away', { ...isOn, folded: folded(false) }, 'stop, clear: gate'],
    ['take it away without an enforcement too', { off: OFF }, 'stop, clear: off'],
    ['take it away once', { off: OFF, without: 'off' }, ''],
    ['say each reason', { off: OFF, without: 'gate' }, 'stop, clear: off'],
  ] as const) {
    it(what, () => assert.equal(words({ ...START, ...more }), expected));
  }

  it('add the controllers that the API server knows to the AddressSet', () => {
    const bySeen = seen(null, ['10.1.0.9']);
    const made = others({ ...START, folded: folded(true), seen: bySeen });
    assert.deepEqual(controllersOf(made), ['10.1.0.9']);
    assert.equal(made.received, NOW);
    const again = { ...START, folded: folded(true), seen: bySeen, isEnforcing: true, submitted: made };
    assert.equal(others(again), made, 'the same object without news');
    const more = others({ ...again, seen: seen(null, ['10.1.0.10']) });
    assert.deepEqual(controllersOf(more), ['10.1.0.10']);
    assert.equal(words({ ...START, seen: bySeen }), '', 'rules that are there are left alone');
  });
});

describe('the revision in force', () => {
  const inForce = (received: NodeState, revision: string | null) => ({
    wanted: received,
    received,
    revision,
  });
  for (const [what, { was = null, view = null, revision = null }, expected] of [
    ['is that of the submission', { revision: 'e.1', view: folded(true, LAST, 'e.2') }, 'e.1'],
    ['is not known of a saved state', {}, null],
    [
      'is a later one that the controller gave the same state before it was in force',
      { revision: 'e.1', view: folded(true, NOW, 'e.3') },
      'e.3',
    ],
    ['is known of a saved state once the controller has the same', { view: folded(true, NOW, 'e.3') }, 'e.3'],
    [
      'stays a later one when the same state is applied again',
      { revision: 'e.1', was: inForce(NOW, 'e.3'), view: folded(true, LAST, 'e.4') },
      'e.3',
    ],
    [
      'is the submitted one after another state',
      { revision: 'e.4', was: inForce(LAST, 'e.3'), view: folded(true, LAST, 'e.5') },
      'e.4',
    ],
  ] as const) {
    it(what, () => {
      const state: Pick<AgentState, 'inForce' | 'folded'> = { inForce: was, folded: view };
      assert.equal(revisionInForce(state, { received: NOW, revision }), expected);
    });
  }
});
