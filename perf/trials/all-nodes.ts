/** How long the page about all nodes takes, and how long others wait meanwhile. */

import { monitorEventLoopDelay } from 'node:perf_hooks';
import { allNodes } from '../../test/metrics/all-nodes.ts';
import { seriesOf } from '../../test/metrics/promtool.ts';
import { answer, timed, trialInput } from './trial.ts';

const cluster = allNodes(trialInput<{ nodes: number; rules: number }>());
cluster.report(1);
cluster.report(2);
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
const first = await timed(() => cluster.page());
delay.disable();
const second = await timed(() => cluster.page());
answer({
  first: first.milliseconds,
  second: second.milliseconds,
  pause: delay.max / 1e6,
  bytes: Buffer.byteLength(first.result),
  series: seriesOf(first.result).length,
});
