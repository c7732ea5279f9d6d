import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { EGRESS_RECORDS } from '../../agent/egress/record/egress-record.ts';
import { recordLines } from '../../agent/record/record-files.ts';
import { egressAgents, egressPolicy, gateway } from '../../test/kernel/egress-agents.ts';
import { createEgressLab } from '../../test/kernel/egress-lab.ts';
import { amount, atLeast, type Benchmark, figure } from '../measure/figure.ts';
import { memoryOf, processorTimeOf } from '../measure/process.ts';

/** New connections a second. */
const RATES = [2_000, 10_000] as const;
/** The flood's source ports: more packets are not of new connections. */
const MOST = 60_000;
/** Milliseconds in which the agent writes what it has received. */
const SETTLED = 2_000;

export const egressRecords: Benchmark = {
  name: 'egress-records',
  title: 'the records of an egress gateway',
  how: '`test/probe flood` sends UDP packets of a pod, each a new connection, at a fixed rate through a gateway with log.egressConnections, until 60,000 are sent or 6 s have passed: lines of event `begun` against packets, lines of event `gap` with the reason overrun, processor time (/proc/PID/stat) and resident memory of the gateway’s agent. Then `conntrack -D` ends all of them at one moment, faster than any agent reads: lines of event `ended`.',
  async run(settings) {
    const figures = [];
    for (const rate of RATES) {
      const found: Trial[] = [];
      for (let i = 0; i < amount(settings, [1, 2, 5]); i++) found.push(await trial(rate));
      const column = (key: keyof Trial) => found.map((one) => one[key]);
      figures.push(
        figure(`${rate.toLocaleString('en')} new connections/s: recorded`, '%', column('recorded'), {
          target: atLeast(100),
          note: `of ${column('packets').join(', ')}; overruns: ${column('overruns').join(', ')}`,
        }),
        figure('… agent of the gateway, of one core', '%', column('processor')),
        figure('… agent of the gateway, resident memory before', 'MB', column('before')),
        figure('… all end at one moment: recorded', '%', column('ended'), {
          note: `overruns: ${column('endOverruns').join(', ')}`,
        }),
        figure('… at most, after all of it', 'MB', column('peak')),
      );
    }
    return figures;
  },
};

interface Trial {
  readonly packets: number;
  readonly recorded: number;
  readonly overruns: number;
  readonly ended: number;
  readonly endOverruns: number;
  readonly processor: number;
  readonly before: number;
  readonly peak: number;
}

async function trial(rate: number): Promise<Trial> {
  const lab = await createEgressLab({ nodes: ['plain', 'gw-1'], podsPerNode: 1 });
  const log = { egressConnections: true, maxBytes: 2 ** 30 };
  const agents = await egressAgents(lab, { log });
  try {
    await agents.write('egress.json', [
      gateway('one', ['gw-1']),
      egressPolicy('all', ['plain-0'], { gateway: 'one' }),
    ]);
    for (const node of lab.nodes.keys()) agents.start(node);
    for (const node of lab.nodes.keys()) await agents.untilInForce(node, /chain egress-guard/);
    await agents.untilInForce('plain', /EgressPolicy default\/all/);
    // What a start costs is none of the records'.
    await pause(SETTLED);
    const stateDir = agents.stateDir('gw-1');
    const { pid } = JSON.parse(await readFile(join(stateDir, 'agent.json'), 'utf8'));
    const { now: before } = await memoryOf(pid);
    const used = await processorTimeOf(pid);
    const started = performance.now();
    const stop = await lab.flood('plain-0', { family: 4, protocol: 'udp' }, rate);
    await pause(Math.min(6_000, (1000 * MOST) / rate));
    const packets = await stop();
    const seconds = (performance.now() - started) / 1000;
    await pause(SETTLED);
    const processor = (100 * ((await processorTimeOf(pid)) - used)) / seconds;
    const file = join(stateDir, EGRESS_RECORDS);
    const { begun, overruns } = await countLines(file);
    await lab.node('gw-1').namespace.run(['conntrack', '-D', '-p', 'udp']);
    await pause(SETTLED);
    const after = await countLines(file);
    const { peak } = await memoryOf(pid);
    const share = (lines: number): number => (100 * lines) / packets;
    return {
      packets,
      recorded: share(begun),
      overruns,
      ended: share(after.ended),
      endOverruns: after.overruns - overruns,
      processor,
      before,
      peak,
    };
  } finally {
    await agents.close();
    await lab.close();
  }
}

async function countLines(path: string) {
  const counts = { begun: 0, ended: 0, overruns: 0 };
  for await (const line of recordLines(path, { follow: false })) {
    if (line?.includes('"event":"begun"')) counts.begun++;
    if (line?.includes('"event":"ended"')) counts.ended++;
    if (line?.includes('"reason":"overrun"')) counts.overruns++;
  }
  return counts;
}
