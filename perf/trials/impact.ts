/** What a change of a policy does, and whether Guardrails hold, in a large cluster. */

import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Guardrail, RequiredFlow } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { ChangeOverrunError, ImpactJudge } from '../../controller/impact/impact.ts';
import { changedPolicies, poolCluster } from '../generate/pool-cluster.ts';
import type { DifferenceInput } from '../measure/difference.ts';
import { answer, timed, trialInput } from './trial.ts';

const input = trialInput<DifferenceInput>();
const flows = (ports: readonly number[]): RequiredFlow[] =>
  ports.map((port) => ({ direction: 'ingress', from: [{ nodeSelector: {} }], ports: [{ port }] }));
const guardrail = (name: string, ports: readonly number[]): Guardrail => ({
  kind: 'Guardrail',
  apiGroup: 'nodewall.io',
  name,
  uid: '',
  generation: 1,
  spec: { nodeSelector: {}, mustAllow: flows(ports) },
});
const guardrails = Array.from({ length: 10 }, (_, i) => guardrail(`g${i}`, [22, 6443, 10_250, 3000 + i]));
const objects = { ...poolCluster(input), guardrails };
const changed = changedPolicies(objects.policies, input.change);
const next = changed.find((policy, i) => policy !== objects.policies[i]) ?? null;
const judge = new ImpactJudge(DEFAULT_CONFIG);
const first = await timed(() => judge.violations(objects));
const change = {
  kind: 'ClusterNetworkPolicy',
  identity: next === null ? '' : identityOf(next),
  next,
} as const;
const again = await timed(() => judge.violations({ ...objects }));
judge.violations(objects);
const over = performance.now() + 700;
const checkpoint = (): void => {
  if (performance.now() > over) throw new ChangeOverrunError('over');
};
const { result, milliseconds, cpu } = await timed(() =>
  judge.lines(
    judge.judge(objects, change, () => {}),
    checkpoint,
  ),
);
answer({
  milliseconds,
  cpu,
  first: first.milliseconds,
  again: again.milliseconds,
  broken: first.result.size,
  lines: result.length,
});
