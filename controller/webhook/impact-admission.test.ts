import assert from 'node:assert/strict';
import type { ObjectChange } from '../impact/object-mirror.ts';
import { impactAdmission } from './impact-admission.ts';

const FLOW = {
  direction: 'ingress',
  src: '10.0.0.1',
  dst: '192.0.2.1',
  protocol: 'tcp',
  srcPort: 40_000,
  dstPort: 22,
} as const;
const IMPACT = {
  broken: { guardrail: 'ssh', violation: { node: 'n1', flow: FLOW, rule: null } },
  neverHeld: null,
  lines: [],
} as never;

describe('impactAdmission', () => {
  const refusalOf = (next: object | null): string => {
    const change = { kind: 'ClusterNetworkPolicy', identity: 'ClusterNetworkPolicy|nodewall.io|p', next };
    const answered = { warnings: [], hasGuardrails: true };
    return impactAdmission(change as ObjectChange, IMPACT, answered).rejection?.message ?? '';
  };

  it('says how to store or delete in spite of a Guardrail', () => {
    const why = `ClusterNetworkPolicy/p: would break Guardrail/ssh on n1: ${JSON.stringify(FLOW)} is decided by no rule`;
    assert.equal(refusalOf(null), `${why}; to delete it all the same: kubectl delete guardrail ssh`);
    assert.equal(refusalOf({}), `${why}; to store it all the same: kubectl delete guardrail ssh`);
  });
});
