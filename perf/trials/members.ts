/** 100,000 addresses into one set, then one more and one less, by the reconciler; in an empty network namespace. */
import { Netlink, Nftables } from 'nftables-napi';
import { NodeRuleReconciler } from '../../agent/apply/reconciler.ts';
import { render } from '../../agent/render/render.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { ClusterObjects, Rule } from '../../apis/objects.ts';
import { compile } from '../../controller/compile/compile.ts';
import { nodeView } from '../../controller/publish/nodeview.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { NODE_NAME } from '../generate/cluster.ts';
import { median } from '../measure/statistics.ts';
import { answer, timed, trialInput } from './trial.ts';

/** `interval`: a prefix beside the pods, which makes it an interval set. */
const { manifests, interval } = trialInput<{ manifests: string; interval: boolean }>();
const { objects } = await loadManifests([manifests]);
const commands = new Nftables();
const netlink = new Netlink();
const reconciler = new NodeRuleReconciler({ commands, netlink });

const crowd = objects.pods.filter(({ namespace }) => namespace === 'crowd');
const others = objects.pods.filter(({ namespace }) => namespace !== 'crowd');

function ruleset(pods: ClusterObjects['pods']): Ruleset {
  const [first, ...rest] = objects.policies;
  if (first === undefined) throw new Error('no policy');
  const [rule, ...rules] = first.spec.ingress ?? [];
  const ingress = rule === undefined ? [] : [withPrefix(rule), ...rules];
  const policies = [{ ...first, spec: { ...first.spec, ingress } }, ...rest];
  return render(nodeView(compile({ ...objects, pods, policies }), NODE_NAME), DEFAULT_CONFIG);
}

function withPrefix(rule: Rule): Rule {
  return interval ? { ...rule, from: [...(rule.from ?? []), { ipBlock: { cidr: '100.64.0.0/10' } }] } : rule;
}

async function applied(pods: ClusterObjects['pods']): Promise<{ render: number; apply: number }> {
  const desired = await timed(() => ruleset(pods));
  const { milliseconds } = await timed(() => reconciler.apply(desired.result));
  return { render: desired.milliseconds, apply: milliseconds };
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
await Promise.all([commands.close(), netlink.close()]);
