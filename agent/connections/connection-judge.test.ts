import assert from 'node:assert/strict';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { addressSet, compiledRule, fromSet, stateOf } from '../../test/fake/node-state.ts';
import { mayDeny } from './connection-judge.ts';

const members = (...addresses: readonly string[]) => addressSet('s', { members: toMemberSet([], addresses) });

function state(rule: CompiledRule, ...addresses: readonly string[]): NodeState {
  const sets = [addressSet('nodes'), members(...addresses)];
  return stateOf([rule], { addressSets: new Map(sets.map((set) => [set.id, set])) });
}

const named = { peers: fromSet('s') };
const allow = compiledRule('r', { action: 'Allow', ...named });
const drop = compiledRule('r', named);
const recheck = compiledRule('r', { ...named, source: { established: 'Recheck' } });
const pass = compiledRule('r', { action: 'Pass', ...named });
const audit = compiledRule('r', { mode: 'Audit', ...named });

/** The rule, and whether it may deny more when its set gains a member, and when it loses one. */
const CASES = [
  ['Allow', allow, false, true],
  ['Drop of a policy that keeps connections', drop, true, true],
  ['Drop of a policy with Recheck', recheck, true, false],
  ['Pass', pass, true, true],
  ['Audit', audit, false, false],
] as const;

describe('a change of state may deny more', () => {
  for (const [title, rule, gained, lost] of CASES) {
    it(`by the members of a set: ${title}`, () => {
      const [one, two] = [state(rule, '10.0.0.1'), state(rule, '10.0.0.1', '10.0.0.2')];
      const both = { ...two, rules: one.rules, addressSets: new Map([...two.addressSets]) };
      both.addressSets.set('nodes', one.addressSets.get('nodes') ?? addressSet('nodes'));
      assert.deepEqual([mayDeny(one, both), mayDeny(both, one)], [gained, lost]);
      assert.equal(mayDeny(one, one), false);
    });
  }

  it('by rules, the addresses of the Node, ports of the API server, places of the control plane, and pods that are removed', () => {
    const one = state(drop, '10.0.0.1');
    assert.equal(mayDeny(one, { ...one, rules: [compiledRule('other')] }), true);
    assert.equal(mayDeny(one, { ...one, nodeAddresses: ['10.0.0.9'] }), true);
    assert.equal(mayDeny(one, { ...one, apiServerPorts: [6444] }), true);
    const places = (peer: string): NodeState => ({
      ...one,
      controlPlane: [{ protocol: 'tcp', ports: [6443, 6443], peers: [peer] }],
    });
    assert.equal(mayDeny(places('10.0.0.7'), places('10.0.0.8')), true);
    assert.equal(mayDeny(places('10.0.0.7'), places('10.0.0.7')), false);
    const pods = (...addresses: readonly string[]): NodeState => ({
      ...one,
      localPods: members(...addresses),
    });
    assert.equal(mayDeny(pods('10.1.0.1'), pods()), true);
    assert.equal(mayDeny(pods(), pods('10.1.0.1')), false);
  });

  it('by prefixes, whichever way', () => {
    const wide = (cidr: string): NodeState => {
      const { value, length, family } = { family: 4, value: 0x0a000000n, length: Number(cidr) } as const;
      const set = addressSet('s', {
        members: toMemberSet([{ cidr: { family, value, length }, except: [] }], []),
      });
      return { ...one, addressSets: new Map([...one.addressSets, ['s', set]]) };
    };
    const one = state(allow);
    assert.equal(mayDeny(wide('8'), wide('9')), true);
  });
});
