/**
 * A directory enforced in an empty network namespace; then one policy edited, and one pod added and
 * taken away, again and again.
 */
import type { ClusterObjects } from '../../apis/objects.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { median } from '../measure/statistics.ts';
import { type Stage, stages } from './stages.ts';
import { answer, trialInput } from './trial.ts';

interface Input {
  readonly manifests: string;
  readonly edits: number;
  /** Of each, a pod added and taken away: the last one of the directory. */
  readonly pods: number;
}

const { manifests, edits, pods } = trialInput<Input>();
const { objects } = await loadManifests([manifests]);
const agent = stages();

/** The first rule of one policy with the other action. */
function edited(before: ClusterObjects, index: number): ClusterObjects {
  const policies = [...before.policies];
  const policy = policies[index];
  const [rule, ...rules] = policy?.spec.ingress ?? [];
  if (policy === undefined || rule === undefined) throw new Error('no rule');
  const action = rule.action === 'Drop' ? 'Allow' : 'Drop';
  policies[index] = { ...policy, spec: { ...policy.spec, ingress: [{ ...rule, action }, ...rules] } };
  return { ...before, policies };
}

const first = await agent.enforce(objects);
const edit: Stage[] = [];
let now = objects;
for (let i = 0; i < edits; i++) {
  // Not the first two policies, nor always the same.
  const index = 2 + ((i * 37) % (objects.policies.length - 2));
  now = edited(now, index);
  edit.push(await agent.enforce(now));
}
const without = { ...objects, pods: objects.pods.slice(0, -1) };
const added: Stage[] = [];
const removed: Stage[] = [];
for (let i = 0; i < pods; i++) {
  removed.push(await agent.enforce(i === 0 ? without : { ...without, pods: [...without.pods] }));
  added.push(await agent.enforce({ ...objects, pods: [...objects.pods] }));
}
const middle = (all: readonly Stage[], key: keyof Stage) => median(all.map((one) => one[key]));
const { sets } = agent.ruleset();
answer({
  compileRender: first.compile + first.render,
  compile: first.compile,
  render: first.render,
  apply: first.apply,
  applyKernel: first.kernel,
  applyCpu: first.applyCpu,
  edit: middle(edit, 'all'),
  editApply: middle(edit, 'apply'),
  editKernel: middle(edit, 'kernel'),
  add: middle(added, 'apply'),
  addKernel: middle(added, 'kernel'),
  addAll: middle(added, 'all'),
  remove: middle(removed, 'apply'),
  sets: sets.size,
  resident: process.memoryUsage.rss() / 1e6,
});
await agent.close();
