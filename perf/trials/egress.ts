/**
 * What egress gateways cost the compiler at the size of a large cluster: all nodes' states, then
 * one change after another.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { type EgressInput, egressCompiler } from '../../controller/egress/compile-egress.ts';
import { nodeEgressCompiler } from '../../controller/egress/node-egress.ts';
import { type EgressSize, egressCluster, pod } from '../generate/egress.ts';
import { median } from '../measure/statistics.ts';
import { answer, timed, trialInput } from './trial.ts';

const { size, changes } = trialInput<{ size: EgressSize; changes: number }>();

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

let objects = egressCluster(size);
collect();
const heapBefore = process.memoryUsage().heapUsed;
const compile = egressCompiler(DEFAULT_EGRESS_CONFIG);
const views = nodeEgressCompiler();
const compiled = await timed(() => compile(objects));
const viewed = await timed(() => views(compiled.result));
collect();
const figures: Record<string, number> = {
  compile: compiled.milliseconds,
  views: viewed.milliseconds,
  cold: compiled.milliseconds + viewed.milliseconds,
  coldCpu: compiled.cpu + viewed.cpu,
  classes: compiled.result.classes.size,
  heap: (process.memoryUsage().heapUsed - heapBefore) / 1e6,
};
for (const [name, change] of Object.entries(changesOf())) {
  const taken: number[] = [];
  for (let i = 0; i < changes; i++) {
    objects = change(objects, i);
    const { milliseconds } = await timed(() => views(compile(objects)));
    taken.push(milliseconds);
  }
  figures[name] = median(taken);
  figures[`${name}Worst`] = Math.max(...taken);
}
answer(figures);

type Change = (objects: EgressInput, nth: number) => EgressInput;

function changesOf(): Record<string, Change> {
  const replaced = <T>(list: readonly T[], at: number, value: T): T[] =>
    list.map((one, i) => (i === at ? value : one));
  return {
    podNew: (now, i) => ({ ...now, pods: [...now.pods, pod(size.pods + i, size.nodes, 250)] }),
    podScheduled: (now, i) => {
      const one = { ...pod(size.pods + changes + i, size.nodes, 250), addresses: [] };
      return { ...now, pods: [...now.pods, one] };
    },
    podAddress: (now, i) => ({ ...now, pods: replaced(now.pods, 7 * i, pod(7 * i, size.nodes, 251)) }),
    podGone: (now) => ({ ...now, pods: now.pods.slice(0, -1) }),
    policyEdited: (now, i) => {
      const before = now.egressPolicies[17 * i + 1];
      if (before === undefined) return now;
      const spec = { ...before.spec, to: ['198.51.100.0/24'] };
      return { ...now, egressPolicies: replaced(now.egressPolicies, 17 * i + 1, { ...before, spec }) };
    },
    nodeNotReady: (now, i) => {
      const before = now.egressGateways[i + 1];
      if (before === undefined) return now;
      const nodes = [{ name: `node-${3 * (i + 1)}`, ready: false }];
      const gateway = { ...before, status: { nodes, slots: [] } };
      return { ...now, egressGateways: replaced(now.egressGateways, i + 1, gateway) };
    },
  };
}
