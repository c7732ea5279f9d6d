import assert from 'node:assert/strict';
import { formatMembers } from '../../lib/net/member-set.ts';
import { addressSet, compiledRule, fromSet, stateOf } from '../../test/fake/node-state.ts';
import { controllersOf, withControllers } from './destinations.ts';

describe('addresses of controllers from the API server', () => {
  const nodes = addressSet('nodes');
  const others = addressSet('a');
  const known = addressSet('controllers-of-the-cluster');
  const state = stateOf([compiledRule('r', { peers: fromSet('a') })], {
    addressSets: new Map([nodes, others, known].map((one) => [one.id, one])),
    controllers: known.id,
  });
  const membersOf = ({ addressSets, controllers }: typeof state) =>
    formatMembers(addressSets.get(controllers)?.members ?? assert.fail('no AddressSet'));

  it("replace the members of the controllers' AddressSet, and change nothing else", () => {
    const first = withControllers(state, ['10.1.0.2', 'fd00::2', '10.1.0.1']);
    assert.deepEqual(membersOf(first), ['10.1.0.1', '10.1.0.2', 'fd00::2']);
    const second = withControllers(first, ['10.1.0.3']);
    assert.deepEqual(membersOf(second), ['10.1.0.3']);
    assert.equal(second.rules, state.rules);
    assert.equal(second.controllers, known.id);
    assert.equal(second.addressSets.get('a'), others);
    assert.deepEqual({ ...second.addressSets.get(known.id), members: null }, { ...known, members: null });
    assert.deepEqual(membersOf(state), [], 'what it was given stays');
  });

  it('change nothing if they are the same', () => {
    const first = withControllers(state, ['10.1.0.2', '10.1.0.1']);
    assert.equal(withControllers(first, ['10.1.0.1', '10.1.0.2']), first);
    assert.equal(withControllers(state, []), state);
  });

  it('are where agents find the controllers, of either family', () => {
    const found = controllersOf(withControllers(state, ['fd00::2', '10.1.0.1']));
    assert.deepEqual(found, ['10.1.0.1', 'fd00::2']);
    assert.deepEqual([controllersOf(state), controllersOf(stateOf([])), controllersOf(null)], [[], [], []]);
  });

  it('are those, too, that the API server names while none answers, each once', () => {
    const hosts = controllersOf;
    const sent = withControllers(state, ['10.1.0.1', '10.1.0.2']);
    assert.deepEqual(hosts(sent, ['10.1.0.9', '10.1.0.2']), ['10.1.0.9', '10.1.0.2', '10.1.0.1']);
    assert.deepEqual(hosts(sent, null), ['10.1.0.1', '10.1.0.2']);
    assert.deepEqual(hosts(null, ['10.1.0.9']), ['10.1.0.9']);
  });

  it('get an AddressSet of their own if an older controller names none', () => {
    const older = stateOf([]);
    assert.equal(older.controllers, '');
    const now = withControllers(older, ['10.1.0.1']);
    assert.deepEqual(membersOf(now), ['10.1.0.1']);
    assert.deepEqual([...now.addressSets.keys()], [now.controllers, 'nodes']);
    assert.deepEqual(membersOf(withControllers(now, ['10.1.0.2'])), ['10.1.0.2']);
  });
});
