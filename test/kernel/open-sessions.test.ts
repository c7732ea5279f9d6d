/**
 * Sessions of every kind between a node and a client: who began it, by TCP or by connected UDP,
 * over which family, idle or with data that one end sends all the time, and which end speaks first
 * after a change.
 */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Namespace } from '../netns/namespace.ts';
import type { Topology } from '../netns/topology.ts';
import { EITHER_IPTABLES, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { type PolicyOptions, policy, tcp, udp } from './manifests.ts';
import { connects } from './talk.ts';
import { until } from './until.ts';

/** The ends that began sessions listen at these ports of the other end. */
const PORTS = { any: 7001, v4: 7002, ended: 7003 } as const;

type End = 'node' | 'client';

interface Session {
  readonly id: string;
  /** The end that began it. */
  readonly by: End;
  readonly host: string;
  readonly port: number;
  readonly protocol: 'tcp' | 'udp';
  /** The end that sends all the time; null: none. */
  readonly sends: End | null;
  /** The end that speaks first when sessions are asked. */
  readonly speaks: End;
}

/**
 * Both ends are the same program. A line of a session is a datagram, or ends with a newline: `hello
 * ID` begins it, `up ID` answers; `ask ID` is answered by `ok ID`. Input: a command and what it is
 * for, as JSON. `open` prints when all are up; `ask` prints the ids that answered: at once when all
 * did, else after 3 s in which none did.
 */
const PROGRAM = `
const net = require('node:net'), dgram = require('node:dgram');
const [ports, sides] = JSON.parse(process.argv[1]);
const senders = new Map(), up = new Set(), answered = new Set();
let opened = () => {}, heard = () => {};
const take = (line, send) => {
  const [word, id] = line.split(' ');
  if (word === 'hello') { senders.set(id, send); send('up ' + id); }
  else if (word === 'up') { up.add(id); opened(); }
  else if (word === 'ask') send('ok ' + id);
  else if (word === 'ok') { answered.add(id); heard(); }
};
const stream = (socket) => {
  const send = (line) => socket.write(line + '\\n');
  socket.setNoDelay(true).on('error', () => {});
  require('node:readline').createInterface({ input: socket }).on('line', (line) => take(line, send)).on('error', () => {});
  return send;
};
const datagrams = (socket) => {
  const send = (line) => socket.send(line, () => {});
  socket.on('message', (bytes) => take(String(bytes), send)).on('error', () => {});
  return send;
};
const commands = {
  open(calls, done) {
    opened = () => { if (calls.every(({ id }) => up.has(id))) { opened = () => {}; done('up'); } };
    for (const { id, host, port, protocol } of calls) {
      if (protocol === 'tcp') {
        const socket = net.connect(port, host);
        const send = stream(socket);
        senders.set(id, send);
        socket.on('connect', () => send('hello ' + id));
      } else {
        const socket = dgram.createSocket(host.includes(':') ? 'udp6' : 'udp4');
        const send = datagrams(socket);
        senders.set(id, send);
        socket.connect(port, host, () => send('hello ' + id + ' ' + host));
      }
    }
    opened();
  },
  send(ids, done) {
    setInterval(() => { for (const id of ids) senders.get(id)('tick'); }, 20);
    done('sends');
  },
  ask(ids, done) {
    answered.clear();
    let timer;
    const end = () => { clearTimeout(timer); heard = () => {}; done([...answered].sort()); };
    heard = () => {
      clearTimeout(timer);
      if (ids.every((id) => answered.has(id))) return end();
      timer = setTimeout(() => setImmediate(end), 3000);
    };
    for (const id of ids) senders.get(id)('ask ' + id);
    heard();
  },
};
let left = 2 * sides.length;
const listening = () => --left || console.log(JSON.stringify('listens'));
for (const [host, port] of sides) {
  net.createServer(stream).listen({ host, port, backlog: 4096 }, listening);
  const type = host.includes(':') ? 'udp6' : 'udp4';
  const waiting = dgram.createSocket({ type, reuseAddr: true, recvBufferSize: 1 << 22 });
  const begun = new Set();
  const accept = (bytes, from) => {
    const key = from.address + ' ' + from.port;
    const [word, , called] = String(bytes).split(' ');
    if (word !== 'hello' || begun.has(key)) return;
    begun.add(key);
    const socket = dgram.createSocket({ type, reuseAddr: true });
    const send = (line) => socket.send(line, () => {});
    // Until it is connected it gets what others send to this port, too.
    socket.on('error', () => {}).on('message', (line, other) => {
      if (other.address === from.address && other.port === from.port) take(String(line), send);
      else accept(line, other);
    });
    // The address that was called: the kernel might choose another one to answer from.
    const local = type === 'udp6' && !called.includes(':') ? '::ffff:' + called : called;
    socket.bind(port, local, () => socket.connect(from.port, from.address, () => take(String(bytes), send)));
  };
  waiting.on('message', accept);
  waiting.bind(port, host, listening);
}
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const [command, what] = JSON.parse(line);
  commands[command](what, (result) => console.log(JSON.stringify(result)));
});`;

type Ask = (command: 'open' | 'send' | 'ask', what: unknown) => Promise<unknown>;

async function start(namespace: Namespace): Promise<Ask> {
  const sides = [
    ['::', PORTS.any],
    ['0.0.0.0', PORTS.v4],
    ['::', PORTS.ended],
  ];
  const argv = [process.execPath, '-e', PROGRAM, JSON.stringify([PORTS, sides])];
  const child = namespace.spawn(argv);
  child.stderr.pipe(process.stderr);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<unknown> => {
    const { value } = await lines.next();
    if (value === undefined) throw new Error('the end of the sessions ended');
    return JSON.parse(value);
  };
  await next();
  return async (command, what) => {
    child.stdin.write(`${JSON.stringify([command, what])}\n`);
    return await next();
  };
}

class OpenSessions {
  readonly #topology: Topology;
  readonly #ends: Readonly<Record<End, Ask>>;
  #sessions: readonly Session[] = [];

  private constructor(topology: Topology, ends: Readonly<Record<End, Ask>>) {
    this.#topology = topology;
    this.#ends = ends;
  }

  static async start(topology: Topology): Promise<OpenSessions> {
    const [client] = topology.clients;
    if (client === undefined) throw new Error('no client');
    return new OpenSessions(topology, { node: await start(topology.node), client: await start(client) });
  }

  get ids(): string[] {
    return this.#sessions.map(({ id }) => id).sort();
  }

  /** Opens so many more sessions, of each kind in turn. @returns their number */
  async open(count: number, port: 'any' | 'ended' = 'any'): Promise<number> {
    const kinds = this.#kinds(port);
    const first = this.#sessions.length;
    const fresh = Array.from({ length: Math.max(count, kinds.length) }, (_, i): Session => {
      const kind = kinds[i % kinds.length];
      if (kind === undefined) throw new Error('no kind');
      return { ...kind, id: `${first + i}-${nameOf(kind)}` };
    });
    this.#sessions = [...this.#sessions, ...fresh];
    for (const end of ['node', 'client'] as const) {
      const own = fresh.filter(({ by }) => by === end);
      // Each is one datagram: more at once would not fit into a buffer.
      for (let i = 0; i < own.length; i += 100) await this.#ends[end]('open', own.slice(i, i + 100));
    }
    for (const end of ['node', 'client'] as const) {
      const sending = fresh.filter(({ sends }) => sends === end).map(({ id }) => id);
      if (sending.length > 0) await this.#ends[end]('send', sending);
    }
    return fresh.length;
  }

  /** The sessions that carry data, first as their first speaker wants it, then the other way. */
  async alive(): Promise<string[]> {
    const first = await this.#ask(({ speaks }) => speaks);
    const second = await this.#ask(({ speaks }) => (speaks === 'node' ? 'client' : 'node'));
    return first.filter((id) => second.includes(id));
  }

  async #ask(speaker: (session: Session) => End): Promise<string[]> {
    const asked = (['node', 'client'] as const).map(async (end) => {
      const own = this.#sessions.filter((session) => speaker(session) === end).map(({ id }) => id);
      return (await this.#ends[end]('ask', own)) as string[];
    });
    return (await Promise.all(asked)).flat().sort();
  }

  #kinds(port: 'any' | 'ended'): Omit<Session, 'id'>[] {
    const { nodeAddresses, clientAddresses } = this.#topology.plan;
    const [own] = nodeAddresses;
    const [remote] = clientAddresses;
    if (own === undefined || remote === undefined) throw new Error('no addresses');
    const kinds: Omit<Session, 'id'>[] = [];
    for (const by of ['node', 'client'] as const) {
      const { v4, v6 } = by === 'client' ? own : remote;
      const mapped = { host: v4, port: PORTS[port] };
      const others = port === 'any' ? [{ host: v4, port: PORTS.v4 }] : [];
      for (const at of [mapped, ...others, { host: v6, port: PORTS[port] }])
        for (const protocol of ['tcp', 'udp'] as const)
          for (const sends of [null, 'node', 'client'] as const)
            for (const speaks of ['node', 'client'] as const)
              kinds.push({ by, ...at, protocol, sends, speaks });
    }
    return kinds;
  }
}

function nameOf({ by, host, port, protocol, sends, speaks }: Omit<Session, 'id'>): string {
  const family = host.includes(':') ? 6 : 4;
  return `${protocol}${family}:${port}-begun-by-${by}-${sends ?? 'nobody'}-sends-${speaks}-speaks`;
}

const IN: PolicyOptions = { ingress: [{ name: 'in', action: 'Drop' }] };
const OUT: PolicyOptions = { egress: [{ name: 'out', action: 'Drop' }] };
const BOTH: PolicyOptions = { ...IN, ...OUT };

/** Sessions of each step, but at least one of each kind. */
const COUNT = Number(process.env.NODEWALL_SESSIONS ?? 0);

forEachDataplane(
  'sessions that are open before the first rules',
  (dataplane) => {
    let node: EnforcedNode;
    let sessions: OpenSessions;
    let marker = 23_000;

    beforeEach(async () => {
      // Nothing has tracked a connection in this namespace: each test needs a new one.
      node = await createEnforcedNode(undefined, dataplane);
      sessions = await OpenSessions.start(node.topology);
    });
    afterEach(() => node?.close());

    async function write(...policies: readonly object[]): Promise<void> {
      const mark = { ingress: [{ name: 'marker', action: 'Drop', ports: [tcp(++marker)] }] } as const;
      await node.write('policies.json', [policy('marker', { priority: 1, ...mark }), ...policies]);
    }

    const inForce = (agent: RunningAgent) => node.untilEnforced(String(marker), agent);

    async function assertNoneLost(agent?: RunningAgent): Promise<void> {
      const alive = new Set(await sessions.alive());
      const lost = sessions.ids.filter((id) => !alive.has(id));
      assert.deepEqual(lost, [], agent?.log().slice(-2000));
    }

    it('go on under a deny of everything, and what begins then is denied', async () => {
      await sessions.open(COUNT);
      await write(policy('all', BOTH));
      await node.once();
      await assertNoneLost();
      const { topology } = node;
      const [client] = topology.clients;
      const [own] = topology.plan.nodeAddresses;
      assert.ok(client !== undefined && own !== undefined);
      assert.equal(await connects(client, own.v4, PORTS.any, 500), false);
    });

    it('go on under ingress rules alone, and those begun during nodewall off under egress rules', async () => {
      await sessions.open(COUNT);
      await write(policy('in', IN));
      const agent = node.start();
      await inForce(agent);
      await assertNoneLost(agent);
      await node.ask('off');
      await until('nothing is in force', async () => (await node.rules()) === '');
      await sessions.open(COUNT);
      await write(policy('out', OUT));
      await node.ask('on');
      await inForce(agent);
      await assertNoneLost(agent);
    });

    it('go on through restarts, and while all policies are removed and added again', async () => {
      await write(policy('all', BOTH));
      await node.write('policies.json', []);
      let agent = node.start();
      await until('the agent enforces no policy', async () => agent.log().includes('enforced"'));
      await sessions.open(COUNT);
      await write(policy('all', BOTH));
      await inForce(agent);
      await assertNoneLost(agent);
      await agent.end('SIGKILL');
      agent = node.start();
      await write(policy('all', BOTH));
      await inForce(agent);
      await assertNoneLost(agent);
    });

    it('are ended by a first policy with established: Recheck, if a rule of it denies them', async () => {
      await sessions.open(COUNT);
      const kept = sessions.ids;
      const denied = await sessions.open(COUNT, 'ended');
      const ports = [tcp(PORTS.ended), udp(PORTS.ended)];
      const ended = (name: string) => [{ name, action: 'Drop', ports }] as const;
      await write(
        policy('recheck', { established: 'Recheck', ingress: ended('in'), egress: ended('out') }),
        policy('rest', { priority: 9, ...BOTH }),
      );
      const agent = node.start();
      await inForce(agent);
      let records: string[] = [];
      await until(`${denied} records of ended sessions`, async () => {
        const text = await readFile(join(node.stateDir, 'records.jsonl'), 'utf8').catch(() => '');
        records = text.split('\n').filter((line) => line.includes('"event":"ended"'));
        return records.length >= denied;
      });
      assert.deepEqual(await sessions.alive(), kept);
      const directions = new Set<string>();
      for (const line of records) {
        const { direction, dstPort, protocol } = JSON.parse(line);
        assert.equal(dstPort, PORTS.ended, line);
        directions.add(`${direction} ${protocol}`);
      }
      assert.deepEqual([...directions].sort(), ['egress tcp', 'egress udp', 'ingress tcp', 'ingress udp']);
    });
  },
  EITHER_IPTABLES,
);
