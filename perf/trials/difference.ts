/** The difference of two clusters, one change a run, with the memory of the process. */

import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { compile } from '../../controller/compile/compile.ts';
import { clusterDifference } from '../../controller/difference/cluster-difference.ts';
import { changedPolicies, poolCluster } from '../generate/pool-cluster.ts';
import type { DifferenceInput } from '../measure/difference.ts';
import { answer, timed, trialInput } from './trial.ts';

const input = trialInput<DifferenceInput>();
const objects = poolCluster(input);
const before = compile(objects);
const after = compile({ ...objects, policies: changedPolicies(objects.policies, input.change) });
const started = process.memoryUsage.rss();
const { result, milliseconds, cpu } = await timed(() =>
  clusterDifference(before, after, { config: DEFAULT_CONFIG }),
);
answer({
  milliseconds,
  cpu,
  groups: result.groups.length,
  rows: result.groups.reduce((sum, { changes }) => sum + changes.length, 0),
  nodes: result.groups.reduce((sum, { nodes: members }) => sum + members.length, 0),
  before: started / 1e6,
});
