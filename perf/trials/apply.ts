/**
 * First apply of a directory in an empty network namespace, in process; then what one changed
 * policy costs.
 */
import type { ClusterObjects } from '../../apis/objects.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { stagesOf, type Variant } from './stages.ts';
import { answer, trialInput } from './trial.ts';

const { manifests, variant } = trialInput<{ manifests: string; variant?: Variant }>();
const { objects } = await loadManifests([manifests]);
const agent = stagesOf(variant);

/** The first rule of the first policy with the other action. */
function withFirstRule(action: 'Allow' | 'Drop'): ClusterObjects {
  const [policy, ...others] = objects.policies;
  const [rule, ...rules] = policy?.spec.ingress ?? [];
  if (policy === undefined || rule === undefined) throw new Error('no rule');
  const spec = { ...policy.spec, ingress: [{ ...rule, action }, ...rules] };
  return { ...objects, policies: [{ ...policy, spec }, ...others] };
}

const first = await agent.enforce(objects);
const processes = agent.processes();
await agent.enforce(withFirstRule('Drop'));
const second = await agent.enforce(withFirstRule('Allow'));
answer({
  apply: first.apply,
  applyCpu: first.applyCpu,
  compileRenderApply: first.all,
  secondChangeApply: second.apply,
  processes,
  secondChangeRender: second.compile + second.render,
});
await agent.close();
