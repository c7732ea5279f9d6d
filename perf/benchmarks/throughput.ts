import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Namespace } from '../../test/netns/namespace.ts';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { cProgram, probeProgram } from '../../test/probe/probe.ts';
import { ruleSet } from '../generate/kinds.ts';
import type { Connection } from '../generate/ruleset.ts';
import { LAYOUT_TITLES, type Layout, prepare } from '../layouts/layouts.ts';
import { ALONE, rotated } from '../measure/connections.ts';
import { amount, atLeast, type Benchmark, type Figure, figure } from '../measure/figure.ts';
import { iperf3 } from '../measure/iperf3.ts';
import { hasCommand } from '../measure/process.ts';
import { median } from '../measure/statistics.ts';

const FIREWALLS = ['none', 'stateful', 'nodewall'] as const satisfies readonly Layout[];
type Firewall = (typeof FIREWALLS)[number];
const RULES = 10_000;
const STREAMS = 4;

/** One kind of traffic: how fast it is, more is better. */
interface Measure {
  readonly what: string;
  readonly unit: Figure['unit'];
  /** Of the empty stateful table, percent; null: stated only. */
  readonly least: number | null;
  run(place: Place): Promise<number>;
}

interface Place {
  readonly node: Namespace;
  readonly client: Namespace;
  readonly connection: Connection;
  readonly seconds: number;
}

export const throughput: Benchmark = {
  name: 'throughput',
  title: 'throughput and answers',
  how: `iperf3 and requests with answers (netperf where it is installed; else perf/rr, which does the same) between two namespaces, without a firewall, with an empty stateful table and with nodewall and ${RULES.toLocaleString('en')} rules, by turns beside each other. A share is of the stateful table in the same turn. Client and server share one processor at a high priority, so that a figure is the cost of a byte or an answer, not the scheduler’s luck.`,
  charts: [{ name: 'share', title: 'Throughput and answers', x: 'traffic', y: '% of no firewall' }],
  async run(settings) {
    const folder = join(settings.folder, 'rules');
    await mkdir(folder, { recursive: true });
    const prepared = await prepare(ruleSet('ports', RULES), folder);
    const measures = [...IPERF, ...((await hasCommand('netperf')) ? NETPERF : OWN)];
    const values = new Map(measures.map(({ what }) => [what, emptyValues()]));
    const seconds = settings.quick ? 0.5 : 1;
    for (let round = 0; round < amount(settings, [1, 1, 3]); round++) {
      const places = await Promise.all(
        FIREWALLS.map(async (firewall) => ({ firewall, ...(await open(prepared, firewall)) })),
      );
      try {
        for (const measure of measures)
          for (let turn = 0; turn < amount(settings, [1, 5, 5]); turn++)
            for (const { firewall, node, client } of rotated(places, turn)) {
              const { connection } = prepared.set;
              values
                .get(measure.what)
                ?.[firewall].push(await measure.run({ node, client, connection, seconds }));
            }
      } finally {
        for (const { close } of places) await close();
      }
    }
    return measures.flatMap((measure) => toFigures(measure, values.get(measure.what) ?? emptyValues()));
  },
};

type Values = Record<Firewall, number[]>;

function emptyValues(): Values {
  return { none: [], stateful: [], nodewall: [] };
}

async function open(prepared: Awaited<ReturnType<typeof prepare>>, firewall: Firewall) {
  const topology = await createTopology(addressPlan({ clients: 1, nodeAddresses: 1, addressesPerClient: 1 }));
  const [client] = topology.clients;
  if (client === undefined) throw new Error('no client');
  await prepared.load(topology.node, firewall);
  return { node: topology.node, client, close: topology.close };
}

function toFigures({ what, unit, least }: Measure, values: Values): Figure[] {
  const shares = (of: Firewall, against: Firewall) =>
    values[of].map((value, i) => (100 * value) / (values[against][i] ?? Number.NaN));
  const target = least === null ? null : atLeast(least);
  return [
    figure(
      `${what}, ${RULES.toLocaleString('en')} rules against the empty stateful table`,
      '%',
      shares('nodewall', 'stateful'),
      {
        target,
        note: `${Math.round(median(values.stateful)).toLocaleString('en')} ${unit} with the stateful table`,
      },
    ),
    ...FIREWALLS.map((firewall) => figure(`${what}: ${LAYOUT_TITLES[firewall]}`, unit, values[firewall])),
    ...FIREWALLS.map((firewall) =>
      figure(`${what}: ${LAYOUT_TITLES[firewall]} against no firewall`, '%', shares(firewall, 'none'), {
        point: { chart: 'share', series: LAYOUT_TITLES[firewall], x: what },
      }),
    ),
  ];
}

function iperf(what: string, least: number | null, options: readonly string[]): Measure {
  return {
    what,
    unit: 'Mbit/s',
    least,
    async run({ node, client, connection: { destination, port }, seconds }) {
      return (await iperf3({ server: node, client, destination, port, seconds, options })).megabits;
    },
  };
}

const IPERF: readonly Measure[] = [
  iperf('iperf3 TCP', 99, []),
  iperf(`iperf3 TCP, ${STREAMS} streams`, 99, ['--parallel', String(STREAMS)]),
  iperf('iperf3 UDP', 99, ['--udp', '--bitrate', '0', '--length', '1400']),
];

function own(what: string, protocol: 'tcp' | 'udp'): Measure {
  return {
    what,
    unit: '1/s',
    least: 99,
    async run({ node, client, connection: { destination, port }, seconds }) {
      const server = node.spawn([...ALONE, await probeProgram(), 'listen', `${protocol}:${port}`]);
      await once(server.stdout, 'data');
      const program = await cProgram(join(import.meta.dirname, '..', 'rr'), 'rr');
      const argv = [...ALONE, program, protocol, destination, String(port), String(seconds)];
      const { stdout } = await client.run(argv);
      server.kill('SIGTERM');
      await once(server, 'exit');
      return Number((JSON.parse(stdout) as { perSecond: number }).perSecond);
    },
  };
}

const OWN: readonly Measure[] = [own('TCP_RR (perf/rr)', 'tcp'), own('UDP_RR (perf/rr)', 'udp')];

/**
 * `netperf -P 0 -t TEST`: one line, the figure in its last column but for UDP_RR and its like,
 * which have a second line. The control connection has a port of its own.
 */
function netperf(test: string, unit: Figure['unit'], least: number | null): Measure {
  return {
    what: `netperf ${test}`,
    unit,
    least,
    async run({ node, client, connection: { destination, port }, seconds }) {
      const control = String(port - 1);
      const server = node.spawn([...ALONE, 'netserver', '-D', '-4', '-p', control]);
      await pause(150);
      const target = ['-H', destination, '-p', control, '-l', String(Math.max(1, Math.round(seconds)))];
      const { stdout } = await client.run([
        ...ALONE,
        'netperf',
        '-P',
        '0',
        ...target,
        '-t',
        test,
        '--',
        // The port that the last rule opens, at the node.
        '-P',
        `,${port}`,
      ]);
      server.kill('SIGTERM');
      await once(server, 'exit');
      return netperfFigure(stdout);
    },
  };
}

function netperfFigure(stdout: string): number {
  const [first = ''] = stdout.trim().split('\n');
  return Number(first.trim().split(/\s+/).at(-1));
}

const NETPERF: readonly Measure[] = [
  netperf('TCP_STREAM', 'Mbit/s', null),
  netperf('TCP_RR', '1/s', 99),
  netperf('TCP_CRR', '1/s', null),
  netperf('UDP_RR', '1/s', 99),
];
