import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createAuthority } from '../../test/cluster/certificates.ts';
import { createNamespace, type Namespace } from '../../test/netns/namespace.ts';
import { atMost, type Benchmark, type Figure, figure, trials } from '../measure/figure.ts';
import { memoryOf, processorTimeOf, type TrialName, trialCommand } from '../measure/process.ts';
import {
  type Changes,
  type ClientsAnswer,
  type ClientsOrder,
  POOLS,
  type PublishClientsInput,
  type PublishServerInput,
  UNCHANGED,
} from '../measure/publish.ts';
import { type Changed, heard, ordered, type Ready } from '../measure/publish-processes.ts';

const CLIENT_PROCESSES = 4;
/** 10,000 rules in all. */
const RULES = { rulesOfAll: 50, rulesOfPool: 100 };

/**
 * The controller's end alone, against clients that do next to nothing: no kernel tables, no API
 * server.
 */
export const publish: Benchmark = {
  name: 'publish',
  title: 'streams of thousands of agents',
  how: `perf/trials/publish-server.ts holds hub and HTTPS server, ${CLIENT_PROCESSES} processes of perf/trials/publish-clients.ts the other ends, a TLS connection for each node, on loopback in a namespace. Times are from the change, or from when the server listens, to the last client's bookmark. 10,000 rules: 50 for all nodes, 100 for each of ${POOLS} pools; a list of pods each.`,
  async run(settings) {
    const nodes = settings.quick ? 200 : 5000;
    const namespace = await createNamespace('publish');
    try {
      await namespace.run(['ip', 'link', 'set', 'lo', 'up']);
      return await measure(namespace, nodes, trials(settings, 20));
    } finally {
      await namespace.close();
    }
  },
};

async function measure(namespace: Namespace, nodes: number, changes: number): Promise<Figure[]> {
  const authority = await createAuthority('benchmark');
  const { certificate: cert, key } = await authority.issue({
    commonName: 'controller',
    names: ['127.0.0.1'],
    usage: 'server',
  });
  const processes: ChildProcess[] = [];
  const start = (name: TrialName, input: object): ChildProcess => {
    const [command = '', ...rest] = namespace.command(trialCommand(name, input));
    const child = spawn(command, rest, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    processes.push(child);
    return child;
  };
  const serverInput: PublishServerInput = { nodes, ...RULES, port: 0, changes: UNCHANGED, key, cert };
  try {
    let server = start('publish-server', serverInput);
    const { port } = await heard<Ready>(server);
    const idle = (await memoryOf(server.pid ?? 0)).now;
    const share = nodes / CLIENT_PROCESSES;
    const clients = Array.from({ length: CLIENT_PROCESSES }, (_, i) => {
      const input: PublishClientsInput = {
        ports: [port],
        ca: authority.certificate,
        first: i * share,
        count: share,
      };
      return start('publish-clients', input);
    });
    await Promise.all(clients.map((client) => heard(client)));
    const all = async (order: ClientsOrder | null, changes: Changes) => {
      const there = clients.map((client) => heard<ClientsAnswer>(client));
      for (const client of clients) {
        if (order !== null) client.send(order);
        client.send({ to: 'await', changes } satisfies ClientsOrder);
      }
      const answers = await Promise.all(there);
      return {
        at: Math.max(...answers.map(({ at }) => at)),
        bytes: answers.reduce((sum, { bytes }) => sum + bytes, 0),
        failed: answers.reduce((sum, { failed }) => sum + failed, 0),
      };
    };
    const microseconds = () => Number(process.hrtime.bigint() / 1000n);

    let began = microseconds();
    const before = await processorTimeOf(server.pid ?? 0);
    const first = await all({ to: 'connect', resume: false }, UNCHANGED);
    const connected = (first.at - began) / 1e6;
    const cpu = (await processorTimeOf(server.pid ?? 0)) - before;
    const rows: Record<'all' | 'compiled' | 'published' | 'cpu' | 'bytes', number>[] = [];
    for (let i = 0; i < changes; i++) {
      const changed = await ordered<Changed>(server, { to: 'change', kind: 'members' });
      const { at, bytes } = await all(null, { members: 1 + i, rules: 0 });
      rows.push({
        all: (at - changed.at) / 1e6,
        compiled: changed.compiled / 1000,
        published: changed.published / 1000,
        cpu: changed.cpu / 1000,
        bytes: bytes / nodes,
      });
    }
    const done = { members: changes, rules: 0 };
    began = microseconds();
    const resumed = await all({ to: 'connect', resume: true }, done);
    const { peak } = await memoryOf(server.pid ?? 0);

    server.kill('SIGKILL');
    await once(server, 'exit');
    server = start('publish-server', { ...serverInput, port, changes: done });
    const { at: ready } = await heard<Ready>(server);
    const restarted = await all(null, done);
    const again = await memoryOf(server.pid ?? 0);
    const view = `a view is ${Math.round(first.bytes / nodes / 1000)} kB`;
    const values = (name: keyof (typeof rows)[number]) => rows.map((row) => row[name]);
    return [
      figure(`one membership change to all of ${nodes} streams`, 's', values('all'), {
        target: atMost(0.5),
        note: `${Math.round(values('bytes')[0] ?? 0)} bytes each`,
      }),
      figure('… of it compile', 'ms', values('compiled')),
      figure('… of it publish, until the server has handed it to all connections', 'ms', values('published')),
      figure('… processor time of both', 'ms', values('cpu')),
      figure(`${nodes} whole views to clients that connect at once`, 's', [connected], {
        note: `${view}; ${cpu.toFixed(1)} s of processor time in the controller`,
      }),
      figure('… coming back at once, resuming', 's', [(resumed.at - began) / 1e6], {
        note: `${Math.round(resumed.bytes / nodes)} bytes each`,
      }),
      figure('… coming back to a controller that starts again', 's', [(restarted.at - ready) / 1e6], {
        target: atMost(15),
        note: `from when it listens; ${restarted.failed} tries failed before; ${Math.round(restarted.bytes / nodes)} bytes each`,
      }),
      figure("the controller's memory, peak", 'MB', [peak, again.peak], {
        target: atMost(2000),
        note: `${Math.round(idle)} MB before the first client`,
      }),
    ];
  } finally {
    for (const child of processes) child.kill('SIGKILL');
  }
}
