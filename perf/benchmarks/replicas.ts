import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Authority, type Certificate, createAuthority } from '../../test/cluster/certificates.ts';
import { createNamespace, type Namespace } from '../../test/netns/namespace.ts';
import { amount, atMost, type Benchmark, type Figure, figure, trials } from '../measure/figure.ts';
import { memoryOf, processorTimeOf, type TrialName, trialCommand } from '../measure/process.ts';
import {
  type Changes,
  type ClientsAnswer,
  type ClientsOrder,
  POOLS,
  type PublishClientsInput,
  type PublishServerInput,
  UNCHANGED,
  type ViewsAnswer,
} from '../measure/publish.ts';
import { type Changed, heard, ordered, type Ready, type Views } from '../measure/publish-processes.ts';
import { median } from '../measure/statistics.ts';

const REPLICAS = 3;
const CLIENT_PROCESSES = 4;
/** 10,000 rules in all. */
const RULES = { rulesOfAll: 50, rulesOfPool: 100 };
/** Milliseconds from one change to the next while the controllers are restarted. */
const CHURN = 2000;

export const replicas: Benchmark = {
  name: 'replicas',
  title: 'three controllers for all agents, restarted one after the other',
  how: `${REPLICAS} processes of perf/trials/publish-server.ts with the same objects, ${CLIENT_PROCESSES} of perf/trials/publish-clients.ts, a TLS connection for each node to any of the servers, on loopback in a namespace. Rolling restart: each server gets SIGTERM after the clients know that it gets no more connections, and is started again when it has ended; meanwhile a pod or, by turns, a rule of all nodes changes every two seconds. Then one server is killed, without changes. A gap is from the end of a client’s connection to its first bookmark from another server, the client’s wait of a quarter to half a second before it connects again included. Clients share the processors with the servers, so the processor time of both is shown too. A change is missed where a client gets no bookmark for it, or one out of order; one client of each pool and process folds its stream, has to have what the change says at each bookmark, and in the end what the controllers’ hubs say. Then all servers have a membership change at the same time. (15,000 nodes only by the benchmark's name.) 10,000 rules: 50 for all nodes, 100 for each of ${POOLS} pools.`,
  async run(settings) {
    const namespace = await createNamespace('replicas');
    try {
      await namespace.run(['ip', 'link', 'set', 'lo', 'up']);
      const figures: Figure[] = [];
      for (const nodes of amount(settings, [[300], [5_000], [5_000, 15_000]]))
        figures.push(...(await measure(namespace, nodes, trials(settings, 10, 3))));
      return figures;
    } finally {
      await namespace.close();
    }
  },
};

interface Server {
  readonly process: ChildProcess;
  readonly port: number;
}

/** Seconds, of servers and of all clients. */
interface ProcessorTime {
  readonly servers: number;
  readonly clients: number;
}

/** The answers of all client processes to one question. */
type Moved = Pick<ClientsAnswer, 'at' | 'bytes' | 'gaps' | 'missed' | 'resets'>;

/** The servers, the clients, and the changes that all servers have had. */
class Bed {
  readonly #namespace: Namespace;
  readonly #nodes: number;
  readonly #authority: Authority;
  readonly #issued: Certificate;
  readonly #processes: ChildProcess[] = [];
  #changes: Changes = UNCHANGED;
  #changing: Promise<unknown> = Promise.resolve();
  servers: readonly Server[] = [];
  clients: readonly ChildProcess[] = [];

  private constructor(namespace: Namespace, nodes: number, authority: Authority, issued: Certificate) {
    this.#namespace = namespace;
    this.#nodes = nodes;
    this.#authority = authority;
    this.#issued = issued;
  }

  static async start(namespace: Namespace, nodes: number): Promise<Bed> {
    const authority = await createAuthority('benchmark');
    const request = { commonName: 'controller', names: ['127.0.0.1'], usage: 'server' } as const;
    const bed = new Bed(namespace, nodes, authority, await authority.issue(request));
    for (let i = 0; i < REPLICAS; i++) await bed.startServer();
    await bed.#startClients();
    return bed;
  }

  close(): void {
    for (const child of this.#processes) child.kill('SIGKILL');
  }

  /** Resolves when all servers have it. */
  change(kind: keyof Changes): Promise<readonly Changed[]> {
    return this.#inTurn(async () => {
      this.#changes = { ...this.#changes, [kind]: this.#changes[kind] + 1 };
      const order = { to: 'change', kind } as const;
      const running = this.servers.filter((server) => server.process.connected);
      // A server that ends has not to answer.
      const told = running.map((server) => ordered<Changed>(server.process, order).catch(() => []));
      return (await Promise.all(told)).flat();
    });
  }

  /** Changes something every two seconds until the signal; resolves with their number. */
  async churn(over: AbortSignal): Promise<number> {
    let count = 0;
    for (; !over.aborted; count++) {
      await this.change(count % 2 === 0 ? 'members' : 'rules');
      await sleep(CHURN);
    }
    return count;
  }

  /**
   * Ends one server; resolves when all its clients are at others, with the processor time of these.
   */
  async end(server: Server, signal: NodeJS.Signals): Promise<Moved & { readonly cpu: ProcessorTime }> {
    const others = this.servers.filter((one) => one !== server);
    this.#use(others);
    const before = await this.processorTime(others);
    const ended = once(server.process, 'exit');
    server.process.kill(signal);
    await ended;
    this.servers = others;
    const moved = await this.all(null);
    const { servers, clients } = await this.processorTime(others);
    return { ...moved, cpu: { servers: servers - before.servers, clients: clients - before.clients } };
  }

  /** Resolves when every client has had a bookmark of the present number of changes. */
  async all(order: ClientsOrder | null): Promise<Moved> {
    const there = this.clients.map((client) => heard<ClientsAnswer>(client));
    for (const client of this.clients) {
      if (order !== null) client.send(order);
      client.send({ to: 'await', changes: this.#changes } satisfies ClientsOrder);
    }
    const answers = await Promise.all(there);
    const sum = (of: 'bytes' | 'missed' | 'resets') => answers.reduce((all, one) => all + one[of], 0);
    return {
      at: Math.max(...answers.map(({ at }) => at)),
      bytes: sum('bytes'),
      missed: sum('missed'),
      resets: sum('resets'),
      gaps: answers.flatMap(({ gaps }) => gaps),
    };
  }

  /** The folded views that differ from those of any server. */
  async wrongViews(): Promise<number> {
    let wrong = 0;
    for (const client of this.clients) {
      const answer = heard<ViewsAnswer>(client);
      client.send({ to: 'views' } satisfies ClientsOrder);
      const { nodes, digests } = await answer;
      for (const server of this.servers) {
        const views = await ordered<Views>(server.process, { to: 'views', nodes });
        wrong += digests.filter((digest, i) => digest !== views.digests[i]).length;
      }
      if (digests.length === 0) wrong++;
    }
    return wrong;
  }

  async processorTime(of = this.servers): Promise<ProcessorTime> {
    const sum = async (processes: readonly ChildProcess[]) => {
      const times = await Promise.all(processes.map(({ pid = 0 }) => processorTimeOf(pid)));
      return times.reduce((all, time) => all + time, 0);
    };
    return { servers: await sum(of.map((one) => one.process)), clients: await sum(this.clients) };
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#changing.then(work);
    this.#changing = done.catch(() => {});
    return done;
  }

  #start(name: TrialName, input: object): ChildProcess {
    const [command = '', ...rest] = this.#namespace.command(trialCommand(name, input));
    const child = spawn(command, rest, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    this.#processes.push(child);
    return child;
  }

  /** With the changes that the others have had, and those that they have had meanwhile. */
  async startServer(port = 0): Promise<void> {
    const { key, certificate: cert } = this.#issued;
    const before = this.#changes;
    const input: PublishServerInput = { nodes: this.#nodes, ...RULES, port, changes: before, key, cert };
    const child = this.#start('publish-server', input);
    const ready = await heard<Ready>(child);
    await this.#inTurn(async () => {
      for (const kind of ['members', 'rules'] as const)
        for (let i = before[kind]; i < this.#changes[kind]; i++) await ordered(child, { to: 'change', kind });
      this.servers = [...this.servers, { process: child, port: ready.port }];
    });
    this.#use(this.servers);
  }

  async #startClients(): Promise<void> {
    const share = this.#nodes / CLIENT_PROCESSES;
    const ports = this.servers.map(({ port }) => port);
    this.clients = Array.from({ length: CLIENT_PROCESSES }, (_, i) => {
      const ca = this.#authority.certificate;
      const input: PublishClientsInput = { ports, ca, first: i * share, count: share };
      return this.#start('publish-clients', input);
    });
    await Promise.all(this.clients.map((client) => heard(client)));
  }

  #use(servers: readonly Server[]): void {
    const ports = servers.map(({ port }) => port);
    for (const client of this.clients) client.send({ to: 'use', ports } satisfies ClientsOrder);
  }
}

async function measure(namespace: Namespace, nodes: number, count: number): Promise<Figure[]> {
  const bed = await Bed.start(namespace, nodes);
  try {
    const before = await bed.processorTime();
    const first = await bed.all({ to: 'connect', resume: false });
    const cpu = (await bed.processorTime()).servers - before.servers;
    const restarts = await rollingRestart(bed);
    const killed = await kill(bed);
    const times: number[] = [];
    for (let i = 0; i < count; i++) {
      const answers = await bed.change('members');
      const { at } = await bed.all(null);
      times.push((at - Math.min(...answers.map((answer) => answer.at))) / 1e6);
    }
    const memory = await Promise.all(bed.servers.map((one) => memoryOf(one.process.pid ?? 0)));
    return [
      figure(`one membership change to all of ${nodes} streams of ${REPLICAS} controllers`, 's', times, {
        target: atMost(0.7),
      }),
      ...restarts,
      ...killed,
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
    bed.close();
  }
}

/** All servers, one after the other, under churn. */
async function rollingRestart(bed: Bed): Promise<Figure[]> {
  const over = new AbortController();
  const churn = bed.churn(over.signal);
  const moves: Moved[] = [];
  for (const server of bed.servers) {
    moves.push(await bed.end(server, 'SIGTERM'));
    await bed.startServer(server.port);
  }
  over.abort();
  const changes = await churn;
  moves.push(await bed.all(null));
  const gaps = moves.flatMap((moved) => moved.gaps).map((gap) => gap / 1e6);
  const sum = (of: 'missed' | 'resets') => moves.reduce((all, moved) => all + moved[of], 0);
  return [
    figure('… rolling restart under churn: an agent without a stream', 's', [median(gaps)], {
      target: atMost(1),
      note: `of ${gaps.length}; the longest ${Math.max(...gaps).toFixed(1)} s; ${changes} changes`,
    }),
    figure(
      '… changes missed, and views that are wrong in the end',
      'views',
      [sum('missed') + (await bed.wrongViews())],
      { target: atMost(0) },
    ),
    figure('… whole views sent, of which few parts had changed', 'views', [sum('resets')], {
      target: atMost(0),
    }),
  ];
}

/** One server, without changes: the others' processor time is that of the agents that come back. */
async function kill(bed: Bed): Promise<Figure[]> {
  const [server] = bed.servers;
  if (server === undefined) throw new Error('no server runs');
  const { gaps, bytes, cpu } = await bed.end(server, 'SIGKILL');
  await bed.startServer(server.port);
  const seconds = gaps.map((gap) => gap / 1e6);
  const each = (time: number): number => (1000 * time) / gaps.length;
  return [
    figure('… one controller is killed: an agent without a stream', 's', [median(seconds)], {
      note: `of ${gaps.length}; the longest ${Math.max(...seconds).toFixed(1)} s; ${Math.round(bytes / gaps.length)} bytes each`,
    }),
    figure('… processor time of the controllers for a thousand that come back', 's', [each(cpu.servers)], {
      note: `of the clients in this benchmark ${each(cpu.clients).toFixed(2)} s`,
    }),
  ];
}
