import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createAuthority } from '../../test/cluster/certificates.ts';
import { createNamespace, type Namespace } from '../../test/netns/namespace.ts';
import { atMost, type Benchmark, type Figure, figure, trials } from '../measure/figure.ts';
import { memoryOf, processorTimeOf, type TrialName, trialCommand } from '../measure/process.ts';
import type {
  ClientsAnswer,
  ClientsOrder,
  PublishClientsInput,
  PublishServerInput,
} from '../measure/publish.ts';
import { POOLS } from '../measure/publish.ts';
import { type Changed, heard, ordered, type Ready, type Stats } from '../measure/publish-processes.ts';
import { median } from '../measure/statistics.ts';

const REPLICAS = 3;
const CLIENT_PROCESSES = 4;
/** 10,000 rules in all. */
const RULES = { rulesOfAll: 50, rulesOfPool: 100 };

export const replicas: Benchmark = {
  name: 'replicas',
  title: 'three controllers for all agents, restarted one after the other',
  how: `${REPLICAS} processes of perf/trials/publish-server.ts with the same objects, ${CLIENT_PROCESSES} of perf/trials/publish-clients.ts, a TLS connection for each node to any of the servers, on loopback in a namespace. Each server is killed and started again, one after the other, after the clients know that it gets no more connections: a gap is from the end of a client's connection to its first bookmark from another server, the client's wait of half a second before it connects again included. Then all servers have a membership change at the same time. 10,000 rules: 50 for all nodes, 100 for each of ${POOLS} pools.`,
  async run(settings) {
    const namespace = await createNamespace('replicas');
    try {
      await namespace.run(['ip', 'link', 'set', 'lo', 'up']);
      const figures: Figure[] = [];
      for (const nodes of settings.quick ? [300] : [5_000, 15_000])
        figures.push(...(await measure(namespace, nodes, trials(settings, 10))));
      return figures;
    } finally {
      await namespace.close();
    }
  },
};

interface Server {
  process: ChildProcess;
  readonly port: number;
  revision: string;
}

async function measure(namespace: Namespace, nodes: number, changes: number): Promise<Figure[]> {
  const authority = await createAuthority('benchmark');
  const issued = await authority.issue({ commonName: 'controller', names: ['127.0.0.1'], usage: 'server' });
  const processes: ChildProcess[] = [];
  const start = (name: TrialName, input: object): ChildProcess => {
    const [command = '', ...rest] = namespace.command(trialCommand(name, input));
    const child = spawn(command, rest, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    processes.push(child);
    return child;
  };
  const startServer = async (port: number): Promise<Server> => {
    const input: PublishServerInput = { nodes, ...RULES, port, key: issued.key, cert: issued.certificate };
    const child = start('publish-server', input);
    const ready = await heard<Ready>(child);
    const { revision } = await ordered<Stats>(child, 'stats');
    return { process: child, port: ready.port, revision };
  };
  try {
    const servers: Server[] = [];
    for (let i = 0; i < REPLICAS; i++) servers.push(await startServer(0));
    const clients = await startClients(start, servers, { nodes, ca: authority.certificate });
    const all = (order: ClientsOrder | null) => awaited(clients, servers, order);
    const before = await processorTime(servers);
    const first = await all({ to: 'connect', resume: false });
    const cpu = (await processorTime(servers)) - before;
    const gaps: number[] = [];
    let [resets, bytes] = [0, 0];
    for (const [i, server] of servers.entries()) {
      const others = servers.filter((one) => one !== server);
      for (const client of clients) use(client, others);
      const ended = once(server.process, 'exit');
      server.process.kill('SIGKILL');
      await ended;
      servers[i] = { ...server, revision: '' };
      const moved = await all(null);
      gaps.push(...moved.gaps);
      resets += moved.resets;
      bytes += moved.bytes;
      servers[i] = await startServer(server.port);
      for (const client of clients) use(client, servers);
    }
    const times: number[] = [];
    for (let i = 0; i < changes; i++) {
      const answers = await Promise.all(servers.map((one) => ordered<Changed>(one.process, 'change')));
      for (const [at, { revision }] of answers.entries()) {
        const server = servers[at];
        if (server !== undefined) server.revision = revision;
      }
      const { at } = await all(null);
      times.push((at - Math.min(...answers.map((answer) => answer.at))) / 1e6);
    }
    const memory = await Promise.all(servers.map((one) => memoryOf(one.process.pid ?? 0)));
    return [
      figure(`one membership change to all of ${nodes} streams of ${REPLICAS} controllers`, 's', times, {
        target: atMost(0.7),
      }),
      figure(`… of ${nodes}, an agent without a stream when its controller ends`, 's', [median(gaps) / 1e6], {
        target: atMost(1),
        note: `of ${gaps.length}; the longest ${(Math.max(...gaps) / 1e6).toFixed(1)} s; ${Math.round(bytes / gaps.length)} bytes each`,
      }),
      figure('… whole views sent, of which none had changed', 'processes', [resets], { target: atMost(0) }),
      figure(
        'each controller’s memory, peak',
        'MB',
        memory.map(({ peak }) => peak),
        { target: atMost(1500) },
      ),
      figure('processor time for a thousand agents that connect', 's', [(1000 * cpu) / nodes], {
        note: `a view is ${Math.round(first.bytes / nodes / 1000)} kB`,
      }),
    ];
  } finally {
    for (const child of processes) child.kill('SIGKILL');
  }
}

function use(client: ChildProcess, servers: readonly Server[]): void {
  client.send({ to: 'use', ports: servers.map(({ port }) => port) } satisfies ClientsOrder);
}

async function startClients(
  start: (name: TrialName, input: object) => ChildProcess,
  servers: readonly Server[],
  { nodes, ca }: { readonly nodes: number; readonly ca: string },
): Promise<ChildProcess[]> {
  const share = nodes / CLIENT_PROCESSES;
  const ports = servers.map(({ port }) => port);
  const clients = Array.from({ length: CLIENT_PROCESSES }, (_, i) => {
    const input: PublishClientsInput = { ports, ca, first: i * share, count: share };
    return start('publish-clients', input);
  });
  await Promise.all(clients.map((client) => heard(client)));
  return clients;
}

/** Resolves when every client has had a bookmark of a server's present revision. */
async function awaited(
  clients: readonly ChildProcess[],
  servers: readonly Server[],
  order: ClientsOrder | null,
) {
  const there = clients.map((client) => heard<ClientsAnswer>(client));
  const revisions = servers.map(({ revision }) => revision).filter((revision) => revision !== '');
  for (const client of clients) {
    if (order !== null) client.send(order);
    client.send({ to: 'await', revisions } satisfies ClientsOrder);
  }
  const answers = await Promise.all(there);
  return {
    at: Math.max(...answers.map(({ at }) => at)),
    bytes: answers.reduce((sum, answer) => sum + answer.bytes, 0),
    resets: answers.reduce((sum, answer) => sum + answer.resets, 0),
    gaps: answers.flatMap((answer) => answer.gaps),
  };
}

async function processorTime(servers: readonly Server[]): Promise<number> {
  const times = await Promise.all(servers.map((one) => processorTimeOf(one.process.pid ?? 0)));
  return times.reduce((sum, time) => sum + time, 0);
}
