/** First apply of a directory in an empty network namespace, in process; then what one changed policy costs. */
import { Netlink, Nftables } from 'nftables-napi';
import { NodeRuleReconciler } from '../../agent/apply/reconciler.ts';
import { render } from '../../agent/render/render.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { compile } from '../../controller/compile/compile.ts';
import { nodeView } from '../../controller/publish/nodeview.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { NODE_NAME } from '../generate/cluster.ts';
import { answer, timed, trialInput } from './trial.ts';

const { manifests } = trialInput<{ manifests: string }>();
const { objects } = await loadManifests([manifests]);
const commands = new Nftables();
const netlink = new Netlink();
const reconciler = new NodeRuleReconciler({ commands, netlink });

async function enforce(now: ClusterObjects) {
  const rendered = await timed(() => render(nodeView(compile(now), NODE_NAME), DEFAULT_CONFIG));
  const applied = await timed(() => reconciler.apply(rendered.result));
  return { render: rendered.milliseconds, apply: applied.milliseconds, cpu: applied.cpu };
}

/** The first rule of the first policy with the other action. */
function withFirstRule(action: 'Allow' | 'Drop'): ClusterObjects {
  const [policy, ...others] = objects.policies;
  const [rule, ...rules] = policy?.spec.ingress ?? [];
  if (policy === undefined || rule === undefined) throw new Error('no rule');
  const spec = { ...policy.spec, ingress: [{ ...rule, action }, ...rules] };
  return { ...objects, policies: [{ ...policy, spec }, ...others] };
}

const first = await enforce(objects);
const change = await enforce(withFirstRule('Drop'));
const second = await enforce(withFirstRule('Allow'));
answer({
  apply: first.apply,
  applyCpu: first.cpu,
  compileRenderApply: first.render + first.apply,
  changeApply: change.apply,
  changeRender: change.render,
  secondChangeApply: second.apply,
  secondChangeRender: second.render,
});
await Promise.all([commands.close(), netlink.close()]);
