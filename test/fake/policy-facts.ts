import type { PolicyPhase } from '../../apis/policy-status.ts';
import type { RolloutDecision } from '../../apis/rollout.ts';
import type { PolicyFacts, Progress } from '../../controller/status/status.ts';

const THREE: Progress = { desired: 3, current: 0, tried: 0, failing: [], trying: [], hasRules: true };

/** A valid policy of generation 4 for three nodes, none of which has it. */
export const NEW_POLICY: PolicyFacts = {
  generation: 4,
  problems: [],
  isWaiting: false,
  enforcedGeneration: 4,
  enforcedSpec: { priority: 5 },
  enabled: true,
  progress: THREE,
  rollout: null,
  deleted: null,
};

const withProgress = (progress: Partial<Progress>): PolicyFacts => ({
  ...NEW_POLICY,
  progress: { ...THREE, ...progress },
});

/** One policy of each phase. */
export const POLICY_OF_PHASE: Readonly<Record<PolicyPhase, PolicyFacts>> = {
  Pending: NEW_POLICY,
  Realizing: withProgress({ current: 2 }),
  Trying: withProgress({ current: 1, tried: 2 }),
  Realized: withProgress({ current: 3 }),
  Failed: withProgress({ current: 2, failing: [{ node: 'n1', reason: 'no such set' }] }),
  RolledBack: withProgress({ failing: [{ node: 'n1', reason: 'probe', rolledBack: true }] }),
  NotEnforced: withProgress({ current: 2, failing: [{ node: 'n1', reason: 'IPVS', notEnforced: true }] }),
  NoNodes: withProgress({ desired: 0 }),
  Invalid: { ...withProgress({ current: 3 }), problems: ['bad'], enforcedGeneration: 3 },
  Disabled: { ...NEW_POLICY, enabled: false },
};

/** One that all nodes enforce which have it, whose rollout is like this. */
export function rolledOutPolicy(decision: Pick<RolloutDecision, 'state' | 'pausedBy'>): PolicyFacts {
  const rollout = { serial: 1, key: 'u', step: 2, policies: [], through: '', firsts: [], ...decision };
  return { ...POLICY_OF_PHASE.Realized, rollout };
}
