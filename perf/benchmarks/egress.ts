import { createNamespace } from '../../test/netns/namespace.ts';
import { LARGE_EGRESS } from '../generate/egress.ts';
import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

const LEASES = { nodes: 100, gateways: 64, policies: 6_400, seconds: 20 };
const AT_GATEWAY = { pods: 100_000, nodes: 1_000, changes: 50 };

type Rows = readonly Readonly<Record<string, number>>[];

export const egress: Benchmark = {
  name: 'egress',
  title: 'egress gateways at the size of a large cluster',
  how: 'perf/trials/egress.ts: from objects in memory to what every node does (sources, classes, slots, arrivals); then one change after another, until the changed states of all nodes are there. perf/trials/egress-stream.ts: the same with the stream, up to the agent of the gateway. perf/trials/egress-arrivals.ts, in an empty namespace: that agent’s rules and network configuration. perf/trials/egress-leases.ts: heartbeats at the leading controller, in simulated time.',
  async run(settings) {
    const rows: Record<string, number>[] = [];
    for (let i = 0; i < trials(settings, 5, 2); i++) {
      rows.push(
        await runTrial('egress', { size: LARGE_EGRESS, changes: 50 }, undefined, ['--no-parallel-scavenge']),
      );
    }
    const streams: Record<string, number>[] = [];
    for (let i = 0; i < trials(settings, 5, 2); i++) {
      const input = { size: LARGE_EGRESS, changes: 50, arrivals: 100_000 };
      streams.push(await runTrial('egress-stream', input, undefined, ['--no-parallel-scavenge']));
    }
    const applied: Record<string, number>[] = [];
    for (let i = 0; i < trials(settings, 5, 2); i++) {
      const namespace = await createNamespace('arrivals');
      try {
        applied.push(await runTrial('egress-arrivals', AT_GATEWAY, namespace, ['--no-parallel-scavenge']));
      } finally {
        await namespace.close();
      }
    }
    const leases: Record<string, number>[] = [];
    for (let i = 0; i < trials(settings, 5, 2); i++) leases.push(await runTrial('egress-leases', LEASES));
    const { policies, pods, gateways, nodes } = LARGE_EGRESS;
    const size = `${policies} policies, ${pods} pods, ${gateways} gateways, ${nodes} nodes`;
    const seconds = (name: string) => column(rows, name).map((milliseconds) => milliseconds / 1000);
    return [
      figure(`compiled from nothing: ${size}`, 's', seconds('cold'), {
        target: atMost(5),
        note: `processor time ${Math.min(...seconds('coldCpu')).toFixed(1)} s`,
      }),
      figure('… of it for each node', 's', seconds('views')),
      figure('… heap', 'MB', column(rows, 'heap')),
      change(rows, 'one pod more', 'podNew', 10),
      change(rows, 'one pod scheduled, without an address yet', 'podScheduled', 10),
      change(rows, 'one pod with another address', 'podAddress', 10),
      change(rows, 'one pod less', 'podGone', 10),
      change(rows, 'one policy edited', 'policyEdited', null),
      change(rows, 'one gateway node not ready', 'nodeNotReady', null),
      change(streams, 'one pod more, until the agents have it', 'all', 10),
      figure('resident, with a view of every node', 'MB', column(streams, 'resident')),
      figure('whole view of a gateway with 100,000 pods', 'ms', column(streams, 'wholeView'), {
        note: `${streams[0]?.wholeMegabytes?.toFixed(1)} MB`,
      }),
      change(streams, 'one pod more at that gateway, published and received by its agent', 'arrival', 1),
      figure('… rendered by its agent', 'ms', column(applied, 'rendered'), { target: atMost(1) }),
      change(applied, '… rendered, and in the kernel', 'added', null),
      figure('all of its pods in the kernel from nothing', 'ms', column(applied, 'first'), {
        target: atMost(500),
      }),
      figure(
        `heartbeats of ${LEASES.nodes} nodes, ${leases[0]?.slots} slots with addresses: processor time of a second`,
        'ms',
        column(leases, 'perSecond'),
        { note: `without HTTPS; ${leases[0]?.kilobytes?.toFixed(0)} kB` },
      ),
      figure(`one of these nodes silent: ${leases[0]?.moves} slots decided`, 'ms', column(leases, 'silent')),
    ];
  },
};

function change(rows: Rows, what: string, name: string, most: number | null) {
  return figure(what, 'ms', column(rows, name), {
    target: most === null ? null : atMost(most),
    note: `worst ${Math.max(...column(rows, `${name}Worst`)).toFixed(1)} ms`,
  });
}
