/**
 * 100,000 addresses into one set, then one more and one less, by the reconciler; in an empty
 * network namespace.
 */
import { setImmediate } from 'node:timers/promises';
import type { ClusterObjects, Rule } from '../../apis/objects.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { median } from '../measure/statistics.ts';
import { stagesOf, type Variant } from './stages.ts';
import { answer, trialInput } from './trial.ts';

/** `interval`: a prefix beside the pods, which makes it an interval set. */
const { manifests, interval, variant } = trialInput<{
  manifests: string;
  interval: boolean;
  variant?: Variant;
}>();
const { objects } = await loadManifests([manifests]);
const agent = stagesOf(variant);

const crowd = objects.pods.filter(({ namespace }) => namespace === 'crowd');
const others = objects.pods.filter(({ namespace }) => namespace !== 'crowd');

function withPods(pods: ClusterObjects['pods']): ClusterObjects {
  const [first, ...rest] = objects.policies;
  if (first === undefined) throw new Error('no policy');
  const [rule, ...rules] = first.spec.ingress ?? [];
  const ingress = rule === undefined ? [] : [withPrefix(rule), ...rules];
  const policies = [{ ...first, spec: { ...first.spec, ingress } }, ...rest];
  return { ...objects, pods, policies };
}

function withPrefix(rule: Rule): Rule {
  return interval ? { ...rule, from: [...(rule.from ?? []), { ipBlock: { cidr: '100.64.0.0/10' } }] } : rule;
}

async function applied(pods: ClusterObjects['pods']): Promise<{ render: number; apply: number }> {
  // As an event would: what the last apply left to be done behind its answer is done.
  await setImmediate();
  const { compile, render, apply } = await agent.enforce(withPods(pods));
  return { render: compile + render, apply };
}

await applied([...others, ...crowd.slice(0, 1)]);
const fill = await applied([...others, ...crowd.slice(0, -1)]);
const more: number[] = [];
const less: number[] = [];
const compileRender: number[] = [];
for (let i = 0; i < 15; i++) {
  const added = await applied([...others, ...crowd]);
  more.push(added.apply);
  compileRender.push(added.render);
  less.push((await applied([...others, ...crowd.slice(0, -1)])).apply);
}
answer({
  members: crowd.length,
  fill: fill.apply,
  fillWithCompile: fill.render + fill.apply,
  add: median(more),
  addWithCompile: median(compileRender) + median(more),
  remove: median(less),
});
await agent.close();
