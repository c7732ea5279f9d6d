/** Compile and render of a directory, first in its process and again and again. */
import { rulesetText } from '../../agent/render/nft-text.ts';
import { render } from '../../agent/render/render.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { compile } from '../../controller/compile/compile.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { NODE_NAME } from '../generate/cluster.ts';
import { median } from '../measure/statistics.ts';
import { answer, timed, trialInput } from './trial.ts';

const { manifests } = trialInput<{ manifests: string }>();
const { objects } = await loadManifests([manifests]);

async function round() {
  const compiled = await timed(() => compile(objects));
  const state = await timed(() => nodeView(compiled.result, NODE_NAME));
  const ruleset = await timed(() => render(state.result, DEFAULT_CONFIG));
  return {
    compile: compiled.milliseconds + state.milliseconds,
    render: ruleset.milliseconds,
    both: compiled.milliseconds + state.milliseconds + ruleset.milliseconds,
    cpu: compiled.cpu + state.cpu + ruleset.cpu,
    state: state.result,
    ruleset: ruleset.result,
  };
}

const cold = await round();
const text = await timed(() => rulesetText(cold.ruleset));
const warm: number[] = [];
for (let i = 0; i < 20; i++) warm.push((await round()).both);
answer({
  cold: cold.both,
  coldCpu: cold.cpu,
  coldCompile: cold.compile,
  coldRender: cold.render,
  coldText: text.milliseconds,
  warm: median(warm.slice(5)),
  rules: cold.state.rules.length,
  addressSets: cold.state.addressSets.size,
  chains: cold.ruleset.chains.size,
  sets: cold.ruleset.sets.size,
});
