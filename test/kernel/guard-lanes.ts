import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Family } from '../../lib/net/address.ts';
import type { FakeControlPlane } from '../fake/control-plane.ts';
import { relay } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { toState } from '../properties/pipeline.ts';
import { clientControlPlane } from './client-control-plane.ts';
import type { Dataplane } from './dataplane.ts';
import { GuardedNode, PORT } from './guarded-node.ts';
import { NODE_NAME, node, type PolicyOptions, policy } from './manifests.ts';
import { type SettableClock, settableClock } from './settable-clock/settable-clock.ts';
import { connects, listen } from './talk.ts';
import { until } from './until.ts';

/** A port that the confirmed rules of every lane close. */
export const CLOSED = 20_000;

export interface Lane {
  readonly guarded: GuardedNode;
  /** Of the agent alone. */
  readonly clock: SettableClock;
  /** A port that no other trial has named: it tells what is in force. */
  marker(): number;
}

/** A node of a cluster with the default configuration and a probe of each kind. */
export interface ClusterLane {
  readonly guarded: GuardedNode;
  /** A port that no other trial has named: it tells what is in force. */
  marker(): number;
  start(): Promise<void>;
  /** The state that the node must enforce. */
  publish(options: PolicyOptions): void;
  /** Whether a fresh connection from the node to its API server is possible. */
  apiServerAnswers(): Promise<boolean>;
  /** Nobody listens at the controller's address for so long (milliseconds). */
  withoutController(time: number): Promise<void>;
  close(): Promise<void>;
}

/** Ports that its probes outward need, besides PORT. */
export const CONTROLLER = 9443;
export const DNS = 53;
const API_SERVER = 6443;
/** The node's address, for the probe to it. */
const INWARD = 7_001;

/** @param family by which the node reaches all that it needs, and is reached */
export async function clusterLane(dataplane: Dataplane, family: Family): Promise<ClusterLane> {
  let marker = 30_000;
  const guarded = await GuardedNode.create(dataplane);
  const { topology } = guarded.node;
  const [client] = topology.clients;
  const [there] = topology.plan.clientAddresses;
  if (client === undefined || there === undefined) throw new Error('no client');
  const host = there[`v${family}`];
  const literal = family === 4 ? host : `[${host}]`;
  const plane = await clientControlPlane(guarded.node, CONTROLLER, family);
  await listen(client, [DNS, API_SERVER]);
  await peerProbes(guarded, plane, INWARD, family);
  plane.endpoints([{ port: API_SERVER, addresses: [host] }]);
  const guard = {
    probes: [
      { name: 'backup', tcp: `${literal}:${PORT}` },
      { name: 'inward', from: 'peer', tcp: `node${family}:${INWARD}` },
    ],
  };
  const names = { servers: [`${literal}:${DNS}`] };
  const options = ['--token-file', plane.tokenFile, '--ca-file', plane.caFile];
  return {
    guarded,
    marker: () => ++marker,
    start: () => guarded.follow(plane.url, options, guard, names),
    publish: (one) => plane.publish(toState([node(topology.plan), policy('cut', one)], NODE_NAME)),
    apiServerAnswers: () => connects(topology.node, host, API_SERVER),
    async withoutController(time) {
      await plane.stop();
      await sleep(time);
      await plane.start();
    },
    async close() {
      await guarded.close();
      await plane.close();
    },
  };
}

/** The node serves a port, and the first client connects to it for each probe to the node. */
export async function peerProbes(
  { node: { topology } }: GuardedNode,
  plane: FakeControlPlane,
  port: number,
  family: Family = 4,
): Promise<void> {
  const [client] = topology.clients;
  const [there] = topology.plan.clientAddresses;
  const [here] = topology.plan.nodeAddresses;
  if (client === undefined || there === undefined || here === undefined) throw new Error('no client');
  await listen(topology.node, [port]);
  const path = `${plane.socket}.inward`;
  const [address, source] = [here[`v${family}`], there[`v${family}`]];
  await relay(client, { path }, { host: address, port });
  plane.probes(async ({ probes, milliseconds }) => {
    const error = await echoed(path, milliseconds);
    const made = { prober: 'peer', address, source, error };
    return { results: probes.map(({ name }) => ({ name, ...made })) };
  });
}

/** Null: the service behind the relay answers. */
async function echoed(path: string, milliseconds: number): Promise<string | null> {
  const socket = connect(path, () => socket.write('x'));
  const { promise, resolve } = Promise.withResolvers<string | null>();
  socket.once('data', () => resolve(null));
  socket.on('error', ({ message }) => resolve(message)).once('close', () => resolve('closed'));
  const late = setTimeout(() => resolve('no answer'), milliseconds);
  return await promise.finally(() => {
    clearTimeout(late);
    socket.destroy();
  });
}

/**
 * Nodes with guarded apply, each in namespaces of its own. Trials mostly wait for windows, so many
 * run side by side.
 */
export class GuardLanes {
  readonly lanes: readonly Lane[];

  static async create(dataplane: Dataplane, count: number): Promise<GuardLanes> {
    let marker = 30_000;
    const lane = async (): Promise<Lane> => {
      const clock = await settableClock(NODEWALL);
      const guarded = await GuardedNode.create(dataplane, () => clock.program);
      return { guarded, clock, marker: () => ++marker };
    };
    const lanes: Lane[] = [];
    // One after the other: namespaces are made by many programs.
    for (let i = 0; i < count; i++) lanes.push(await lane());
    return new GuardLanes(lanes);
  }

  private constructor(lanes: readonly Lane[]) {
    this.lanes = lanes;
  }

  /** Starts the agents with these settings; resolves when their first rules are confirmed. */
  async start(guard: object): Promise<void> {
    await this.each(async ({ guarded }) => {
      await guarded.open(CLOSED, 'Drop');
      await guarded.start(guard);
      await confirmed(guarded);
    });
  }

  /** Runs so many trials, each lane one after the other. */
  async run(trials: number, one: (lane: Lane, trial: number) => Promise<void>): Promise<void> {
    let next = 0;
    await this.each(async (lane) => {
      while (next < trials) await one(lane, next++);
    });
  }

  async each(one: (lane: Lane) => Promise<void>): Promise<void> {
    const ended = await Promise.allSettled(this.lanes.map(one));
    for (const each of ended) if (each.status === 'rejected') throw each.reason;
  }

  async close(): Promise<void> {
    await this.each(async ({ guarded, clock }) => {
      await guarded.close();
      await clock.close();
    });
  }
}

async function confirmed(guarded: GuardedNode): Promise<void> {
  const isSaved = async () => (await guarded.file('node-state.jsonl')).includes(String(CLOSED));
  await until('rules are confirmed', isSaved, { limit: 120_000, detail: () => guarded.agent.log() });
}
