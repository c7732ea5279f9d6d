import assert from 'node:assert/strict';
import { addressSet, compiledRule, stateOf } from '../test/fake/node-state.ts';
import type { RulePeer } from './compiled.ts';
import { DEFAULT_CONFIG } from './config.ts';
import { resolvedPeers } from './resolved-peers.ts';

describe('rule peers', () => {
  const set = addressSet('a');
  const services = { id: 's', description: 'default/api', members: [] };
  const state = stateOf([], { addressSets: new Map([['a', set]]), serviceSets: new Map([['s', services]]) });
  const resolved = (...peers: RulePeer[]) =>
    resolvedPeers(compiledRule('r', { peers }), state, DEFAULT_CONFIG);

  it('have the sets and the numbers of link groups that they name', () => {
    assert.deepEqual(
      resolved({ kind: 'interfaces', groups: [12, 'pods'] }, { kind: 'addresses', set: 'a' }),
      [
        { kind: 'interfaces', groups: [12, 8] },
        { kind: 'addresses', set },
      ],
    );
    assert.deepEqual(resolved({ kind: 'services', set: 's' }), [{ kind: 'services', set: services }]);
    assert.deepEqual(resolved({ kind: 'any' }), [{ kind: 'any' }]);
  });

  it('are refused if a newer version wrote more than this one knows', () => {
    const rule = compiledRule('r', { peers: [{ kind: 'any' }], unsupported: ['field "users"'] });
    assert.throws(
      () => resolvedPeers(rule, state, DEFAULT_CONFIG),
      /needs a newer agent: this version does not know its field "users"/,
    );
  });

  it('are refused if a newer version wrote more about their set', () => {
    const newer = { ...set, unknown: { except: ['10.0.0.1'] } };
    assert.throws(
      () =>
        resolvedPeers(
          compiledRule('r', { peers: [{ kind: 'addresses', set: 'a' }] }),
          stateOf([], { addressSets: new Map([['a', newer]]) }),
          DEFAULT_CONFIG,
        ),
      /needs a newer agent: this version does not know its field "except" of set a/,
    );
  });

  it('are refused if the state or the configuration does not have them', () => {
    assert.throws(() => resolved({ kind: 'addresses', set: 's' }), /does not contain its set s/);
    assert.throws(() => resolved({ kind: 'services', set: 'a' }), /does not contain its set a/);
    for (const name of ['storage', 'toString']) {
      assert.throws(
        () => resolved({ kind: 'interfaces', groups: [name] }),
        new RegExp(`no interface group "${name}" .*known: pods, clusternet`),
      );
    }
  });
});
