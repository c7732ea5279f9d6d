import { agentLock } from '../agent/run/agent-lock.ts';
import { readOff } from '../agent/run/off-file.ts';
import type { CompiledPolicy, CompiledRule, NodeState } from '../apis/compiled.ts';
import type { Overview, OverviewNode, OverviewPolicy, StatusProblem } from '../apis/console.ts';
import type { NodePhase } from '../apis/node-phase.ts';
import type { PolicyPhase } from '../apis/policy-status.ts';
import type { CheckLine } from '../lib/process/check-line.ts';
import { VERSION } from '../lib/process/version.ts';

export interface SeenMachine {
  /** The state in force; null: there never was one. */
  readonly state: NodeState | null;
  readonly name: string;
  /** The lines of `nodewall check` for the machine. */
  readonly checks: readonly CheckLine[];
  readonly stateDir: string;
  readonly now: Date;
}

/** The overview of one machine, from its state directory. */
export async function machineOverview(facts: SeenMachine, before: Overview | null): Promise<Overview> {
  const { state, name, checks, stateDir, now } = facts;
  const isRunning = (await agentLock(stateDir).holder()) !== null;
  const off = readOff(stateDir);
  const [phase, message] = phaseOf({ state, isRunning, off: off?.reason ?? null });
  const node: OverviewNode = {
    ...{ name, phase, message, reported: null, version: VERSION, dataplane: null },
  };
  const problems: StatusProblem[] = [
    ...(message === '' ? [] : [{ object: `Node/${name}`, phase, message }]),
    ...checks
      .filter((line) => line.state !== 'ok')
      .map((line) => ({
        object: `Machine/${line.check}`,
        phase: line.state === 'problem' ? 'Problem' : 'Warning',
        message: line.next === undefined ? line.message : `${line.message}; ${line.next}`,
      })),
  ];
  const ofPolicy = phase === 'Off' || phase === 'Unknown' ? 'Disabled' : 'Realized';
  const time = now.toISOString();
  return {
    ...{ scope: 'machine', time, revision: '', isEnabled: off === null, remark: null, nodes: [node] },
    policies: policiesOf(state).map((one) => toPolicy(one, ofPolicy, before, time)),
    ...{ rollouts: [], problems },
  };
}

/** The policies of a state, in the order of evaluation, as if all their rules were for its node. */
export function policiesOf(state: NodeState | null): CompiledPolicy[] {
  const nodes = new Set(state === null ? [] : [state.node]);
  const groups = Map.groupBy(
    state?.rules ?? [],
    ({ source: { apiGroup, policy } }) => `${apiGroup}/${policy}`,
  );
  return [...groups.values()].map((rules) => {
    const { apiGroup = 'nodewall.io', policy = '' } = rules[0]?.source ?? {};
    return { apiGroup, name: policy, rules, spans: rules.map(() => nodes) };
  });
}

function phaseOf({
  state,
  isRunning,
  off,
}: {
  readonly state: NodeState | null;
  readonly isRunning: boolean;
  readonly off: string | null;
}): [NodePhase, string] {
  if (off !== null) return ['Off', `nodewall off${off === '' ? '' : `: ${off}`}; nothing is enforced`];
  if (state === null) return ['Unknown', 'no agent has enforced anything on this machine'];
  return isRunning ? ['Enforced', ''] : ['Silent', 'the agent does not run; the last rules are in force'];
}

function toPolicy(
  { apiGroup, name, rules }: CompiledPolicy,
  phase: PolicyPhase,
  before: Overview | null,
  now: string,
): OverviewPolicy {
  const [{ tier, priority, mode, traffic, source }] = rules as readonly [CompiledRule];
  const known = before?.policies.find((one) => one.name === name && one.apiGroup === apiGroup);
  const isSame = known?.enforcedGeneration === source.generation;
  return {
    ...{ apiGroup, name, tier, priority, mode, traffic, phase },
    message: `${rules.length} ${rules.length === 1 ? 'rule' : 'rules'}`,
    ...{ generation: source.generation, enforcedGeneration: source.generation },
    since: isSame ? known.since : before === null ? null : now,
    sinceAtLeast: isSame ? known.sinceAtLeast : before === null ? now : null,
    ...{ changed: null, nodes: [[0, 0]], exceptions: [], rollout: null },
  };
}
