import assert from 'node:assert/strict';
import type { NodeState } from '../../apis/compiled.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import type { Folded } from '../receive/fold.ts';
import { type Wanted, WantedState } from './wanted-state.ts';

const LAST = nodeState(closing('last', 22));
const NOW = nodeState(closing('now', 23));
const folded = (enabled: boolean, state = NOW): Folded => ({
  state,
  enabled,
  endpoints: [],
  revision: 'e.1',
});
const start = (more: Partial<ConstructorParameters<typeof WantedState>[0]> = {}): WantedState =>
  new WantedState({ isAllowed: true, last: LAST, rememberedGate: null, ...more });
const nothing: Wanted = { kind: 'nothing' };
const none = (why: 'machine' | 'off' | 'gate'): Wanted => ({ kind: 'none', why });
const enforce = (state: NodeState): Wanted => ({ kind: 'enforce', state });
const controllersOf = (wanted: Wanted): readonly string[] => {
  assert.equal(wanted.kind, 'enforce');
  const { state } = wanted as Extract<Wanted, { kind: 'enforce' }>;
  return formatMembers(state.addressSets.get(state.controllers)?.members ?? assert.fail());
};

describe('WantedState', () => {
  it('is nothing before anybody is heard, then what was enforced last, then what the controller says', () => {
    const want = start();
    assert.deepEqual(want.wanted(false), nothing);
    assert.equal(want.useLast(), LAST);
    assert.deepEqual(want.wanted(false), enforce(LAST));
    assert.equal(want.fold(folded(true)), true);
    assert.deepEqual(want.wanted(false), enforce(NOW));
    assert.equal(want.fold(folded(true)), false);
    assert.equal(want.useLast(), null);
  });

  it('is none where the machine, the command or the gate says so, in that order', () => {
    assert.deepEqual(start({ isAllowed: false }).wanted(true), none('machine'));
    assert.deepEqual(start().wanted(true), none('off'));
    assert.deepEqual(start({ rememberedGate: false }).wanted(false), none('gate'));
    assert.equal(start({ rememberedGate: false }).useLast(), null);
    const want = start();
    want.fold(folded(false));
    assert.deepEqual(want.wanted(false), none('gate'));
    assert.deepEqual(want.wanted(true), none('off'));
  });

  it('obeys the gate that the API server has while no controller answers, and no other word', () => {
    const want = start({ rememberedGate: false });
    want.see({ controllers: null, gate: true });
    assert.deepEqual(want.wanted(false), enforce(LAST));
    want.see({ controllers: null, gate: null });
    assert.equal(want.gate, true);
    want.fold(folded(true));
    want.see({ controllers: null, gate: false });
    assert.deepEqual(want.wanted(false), none('gate'));
    want.see({ controllers: null, gate: true });
    assert.deepEqual(want.wanted(false), enforce(NOW));
    want.see({ controllers: null, gate: false });
    assert.equal(want.fold(folded(true)), true, 'the controller alone counts again');
    assert.deepEqual(want.wanted(false), enforce(NOW));
  });

  it('puts the controllers that the API server knows into the AddressSet, until a controller says it', () => {
    const want = start();
    want.fold(folded(true));
    want.see({ controllers: ['10.1.0.9'], gate: null });
    const wanted = want.wanted(false);
    assert.deepEqual(controllersOf(wanted), ['10.1.0.9']);
    assert.equal(want.origin((wanted as { state: NodeState }).state), NOW);
    want.see({ controllers: ['10.1.0.9'], gate: null });
    const again = want.wanted(false);
    assert.equal((again as { state: NodeState }).state, (wanted as { state: NodeState }).state);
    want.see({ controllers: null, gate: null });
    assert.deepEqual(
      controllersOf(want.wanted(false)),
      ['10.1.0.9'],
      'a look that failed takes nothing back',
    );
    assert.equal(want.fold(folded(true)), true);
    assert.deepEqual(want.wanted(false), enforce(NOW));
    const restarted = start();
    restarted.see({ controllers: ['10.1.0.9'], gate: null });
    assert.deepEqual(restarted.wanted(false), nothing, 'rules that are there are left alone for a while');
    restarted.useLast();
    assert.deepEqual(controllersOf(restarted.wanted(false)), ['10.1.0.9']);
  });
});
