import assert from 'node:assert/strict';
import type { EgressPolicy } from '../../../apis/egress/objects.ts';
import { fakeGateway, fakePolicy } from '../../../test/fake/egress-objects.ts';
import { isSameForChecks } from './egress-objects.ts';

const X = '192.0.2.1';
const fixed = (name: string): EgressPolicy =>
  fakePolicy(name, { address: { allocation: 'Fixed', fixed: { ipv4: X }, count: 1 } });

describe('two states of egress objects', () => {
  const state = (...egressPolicies: EgressPolicy[]) => ({ egressGateways: [], egressPolicies });

  it('are the same for the checks, if only statuses changed that no other policy claims', () => {
    assert.ok(isSameForChecks(state(fakePolicy('a')), state(fakePolicy('a', {}, [X]))));
    assert.ok(
      !isSameForChecks(state(fakePolicy('a'), fixed('b')), state(fakePolicy('a', {}, [X]), fixed('b'))),
    );
    const gateways = (status: object | null) => {
      return { egressPolicies: [], egressGateways: [fakeGateway('g', {}, status as never)] };
    };
    assert.ok(isSameForChecks(gateways(null), gateways({ nodes: [], slots: [] })));
  });

  it('are not the same with another spec, or another object', () => {
    assert.ok(!isSameForChecks(state(fakePolicy('a')), state(fakePolicy('a', { to: ['10.0.0.0/8'] }))));
    assert.ok(!isSameForChecks(state(fakePolicy('a')), state(fakePolicy('b'))));
    assert.ok(!isSameForChecks(state(fakePolicy('a')), state(fakePolicy('a'), fakePolicy('b'))));
  });
});
