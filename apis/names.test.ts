import assert from 'node:assert/strict';
import { formatMembers, toMemberSet } from '../lib/net/member-set.ts';
import type { AddressSet, NodeState } from './compiled.ts';
import { fixedNames, matchesName, nameResolver } from './names.ts';

const set = (id: string, names: readonly string[], ...addresses: string[]): AddressSet => ({
  id,
  description: id,
  dynamic: true,
  names,
  members: toMemberSet([], addresses),
});
const stateOf = (...sets: readonly AddressSet[]): NodeState => ({
  node: 'n',
  rules: [],
  addressSets: new Map(sets.map((one) => [one.id, one])),
  serviceSets: new Map(),
  allNodes: 'all',
  controllers: '',
  apiServerPorts: [],
  nodeAddresses: [],
});
const table = (names: Readonly<Record<string, readonly string[]>>) =>
  fixedNames(new Map(Object.entries(names)));

describe('names', () => {
  it('match themselves, or one or more leading labels for a wildcard', () => {
    const peers: readonly (readonly [peer: string, name: string, matches: boolean])[] = [
      ['www.example.com', 'www.example.com', true],
      ['www.example.com', 'example.com', false],
      ['www.example.com', 'a.www.example.com', false],
      ['*.example.com', 'www.example.com', true],
      ['*.example.com', 'a.b.example.com', true],
      ['*.example.com', 'example.com', false],
      ['*.example.com', '.example.com', false],
      ['*.example.com', 'wwwexample.com', false],
      ['*.example.com', 'www.example.com.net', false],
    ];
    for (const [peer, name, matches] of peers)
      assert.equal(matchesName(peer, name), matches, `${peer} ${name}`);
  });
});

describe('a table of fixed names', () => {
  const names = table({
    'www.example.com': ['192.0.2.2', '192.0.2.1'],
    'api.example.com': ['192.0.2.1', '2001:db8::1'],
    '*.example.com': ['192.0.2.9'],
    '*.a.example.com': ['192.0.2.8'],
  });

  it('returns the addresses of a name, sorted, without duplicates', () => {
    assert.deepEqual(names.addresses('www.example.com'), ['192.0.2.1', '192.0.2.2']);
    assert.deepEqual(names.addresses('no.example.com'), []);
  });

  it('returns for a wildcard the addresses of matching names and its own', () => {
    assert.deepEqual(names.addresses('*.example.com'), [
      '192.0.2.1',
      '192.0.2.2',
      '192.0.2.9',
      '2001:db8::1',
    ]);
    assert.deepEqual(names.addresses('*.a.example.com'), ['192.0.2.8']);
    assert.deepEqual(names.addresses('*.com'), ['192.0.2.1', '192.0.2.2', '2001:db8::1']);
  });
});

describe('the resolver of names', () => {
  const plain = set('plain', [], '10.0.0.1');
  const named = set('named', ['a.example', 'b.example'], '10.0.0.2');
  const membersOf = (state: NodeState, id: string) =>
    formatMembers(state.addressSets.get(id)?.members ?? assert.fail(id));

  it('adds the addresses of names to the sets that have them', () => {
    const state = stateOf(plain, named);
    const resolved = nameResolver()(
      state,
      table({ 'a.example': ['10.0.0.1', '2001:db8::1'], 'b.example': ['10.0.0.3'] }),
    );
    assert.deepEqual(membersOf(resolved, 'named'), ['10.0.0.1', '10.0.0.2', '10.0.0.3', '2001:db8::1']);
    assert.equal(resolved.addressSets.get('plain'), plain);
    assert.deepEqual([...resolved.addressSets.keys()], ['plain', 'named'], 'in their order');
    assert.deepEqual(membersOf(state, 'named'), ['10.0.0.2'], 'what it was given stays');
  });

  it('returns the same set while its addresses are equal', () => {
    const resolve = nameResolver();
    const state = stateOf(plain, named);
    const first = resolve(state, table({ 'a.example': ['10.0.0.1'] }));
    const second = resolve(
      stateOf(plain, named),
      table({ 'a.example': ['10.0.0.1'], 'c.example': ['10.0.0.9'] }),
    );
    assert.equal(second.addressSets.get('named'), first.addressSets.get('named'));
    const third = resolve(state, table({}));
    assert.deepEqual(membersOf(third, 'named'), ['10.0.0.2']);
    const changed = resolve(stateOf(plain, set('named', ['a.example'], '10.0.0.7')), table({}));
    assert.deepEqual(membersOf(changed, 'named'), ['10.0.0.7']);
  });

  it('returns the state itself if there are no names', () => {
    const state = stateOf(plain);
    assert.equal(nameResolver()(state, table({ 'a.example': ['10.0.0.1'] })), state);
  });
});
