/** Agents that follow a controller, and policies that change all the time. */

import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { NodeState } from '../../apis/compiled.ts';
import { snapshot } from '../../apis/wire.ts';
import { LEASE_TIMES } from '../../controller/kubeapi/lease/election.ts';
import { SERVER_LIMITS } from '../../controller/publish/limits.ts';
import { until } from '../kernel/until.ts';
import { toState } from '../properties/pipeline.ts';
import { ApiServer, NODES, POLICIES } from './api-server.ts';
import type { AttackersAnswer, AttackersInput, AttackersOrder } from './attackers.ts';
import { VICTIM } from './attacks.ts';
import { Follower, KernelAgent } from './follower.ts';
import { RunningController } from './running-controller.ts';

const FOLLOWERS = 8;
const CHURNED = 8;
const KERNEL = 'kernel';
/** Milliseconds between a change that all have and the next. */
const PAUSE = 50;
/** Milliseconds after which a change counts as missed. */
const MISSED = 20_000;

/** Milliseconds from a change of a policy in the API server, one value for each change. */
interface Times {
  /** Until the last follower has rendered it. */
  readonly rendered: number[];
  /** Until the kernel has its rule. */
  readonly inKernel: number[];
}

interface Compared {
  readonly quiet: Times;
  readonly attacked: Times;
  /** Milliseconds that as much work took elsewhere on the machine during the attacks, at worst. */
  readonly elsewhere: number;
}

interface Comparison {
  readonly rounds: number;
  /** Milliseconds, of each round without the attacks, and as much with them. */
  readonly time: number;
  readonly beside: (over: AbortSignal) => Promise<unknown>;
}

interface Change {
  readonly at: number;
  readonly missing: Set<string>;
  readonly times: Times;
  readonly done: () => void;
}

/** A process that answers each message. */
class Beside<Order extends string, Answer> {
  readonly #child: ChildProcess;

  constructor(program: string, input: object = {}) {
    this.#child = fork(join(import.meta.dirname, program), [JSON.stringify(input)], { execArgv: [] });
  }

  async ask(order: Order): Promise<Answer> {
    const answer = once(this.#child, 'message');
    this.#child.send(order);
    return (await answer)[0] as Answer;
  }

  async close(): Promise<void> {
    const ended = this.#child.exitCode === null ? once(this.#child, 'exit') : null;
    if (this.#child.connected) this.#child.disconnect();
    await ended;
  }
}

export class Churn {
  readonly api: ApiServer;
  readonly controller: RunningController;
  readonly #changes = new Map<string, Change>();
  #followers: readonly Follower[] = [];
  #kernel: KernelAgent | null = null;
  #count = 0;

  static async start(): Promise<Churn> {
    const api = await ApiServer.start();
    for (const [index, name] of [...names(), VICTIM].entries()) api.objects.put(NODES, node(name, index, 1));
    for (let index = 0; index < CHURNED; index++) api.objects.put(POLICIES, policy(index, 0));
    let controller: RunningController | null = null;
    try {
      controller = await RunningController.start(api.objects.server);
      const churn = new Churn(api, controller);
      await churn.#startAgents();
      return churn;
    } catch (error) {
      await controller?.close();
      await api.close();
      throw error;
    }
  }

  private constructor(api: ApiServer, controller: RunningController) {
    this.api = api;
    this.controller = controller;
  }

  /**
   * By turns without and with the attacks, so that other work on the machine affects both alike.
   * Each attack has to have acted. `beside` runs during the attacks, until its signal.
   */
  async compare(attacks: readonly string[], { rounds, time, beside }: Comparison): Promise<Compared> {
    const { ports, ca } = this.controller;
    const input: AttackersInput = { ports, ca, attacks };
    const attackers = new Beside<AttackersOrder, AttackersAnswer>('attackers.ts', input);
    const yardstick = new Beside<'longest', number>('yardstick.ts');
    let elsewhere = 0;
    const quiet: Times = { rendered: [], inKernel: [] };
    const attacked: Times = { rendered: [], inKernel: [] };
    try {
      for (let round = 0; round < rounds; round++) {
        await attackers.ask('pause');
        await this.#run(time, quiet);
        await attackers.ask('attack');
        await yardstick.ask('longest');
        const poisoned = setInterval(() => this.#poison(), 100);
        const over = new AbortController();
        const other = beside(over.signal);
        await this.#run(time, attacked).finally(() => {
          clearInterval(poisoned);
          over.abort();
        });
        await other;
        elsewhere = Math.max(elsewhere, await yardstick.ask('longest'));
      }
      const acts = await attackers.ask('pause');
      for (const name of attacks) assert.ok((acts[name] ?? 0) > 0, `${name}: ${JSON.stringify(acts)}`);
      return { quiet, attacked, elsewhere };
    } finally {
      await Promise.all([attackers.close(), yardstick.close()]);
    }
  }

  /** No stream has ended, each agent has what compile makes of the objects, and one replica led. */
  async verify(): Promise<void> {
    for (const { node, ends } of this.#followers) assert.deepEqual(ends, [], `the stream of ${node}`);
    const objects = [POLICIES, NODES].flatMap((collection) => this.api.objects.objects(collection));
    for (const follower of this.#followers) {
      const wanted = linesOf(toState(objects, follower.node));
      await until(
        `${follower.node} has the final state`,
        async () => follower.state !== null && linesOf(follower.state) === wanted,
      );
    }
    const rules = (await this.#kernel?.rules()) ?? '';
    for (let index = 0; index < CHURNED; index++)
      assert.match(rules, new RegExp(`\\b${lastChange(index, this.#count)}\\b`));
    const { renewals } = this.api;
    assert.equal(new Set(renewals.map(({ holder }) => holder)).size, 1, JSON.stringify(renewals));
    const gaps = renewals.slice(1).map(({ at }, index) => at - (renewals[index]?.at ?? 0));
    assert.ok(Math.max(...gaps) < LEASE_TIMES.renewDeadline, gaps.join());
    assert.equal(this.controller.isRunning, true);
  }

  async close(): Promise<void> {
    await Promise.all(this.#followers.map((follower) => follower.close()));
    await this.#kernel?.close();
    await this.controller.close();
    await this.api.close();
  }

  async #startAgents(): Promise<void> {
    const starting = names().map((name) => {
      const enforced = (rule: string, at: number): void => this.#enforced(name, rule, at);
      return name === KERNEL
        ? KernelAgent.start(this.controller, name, enforced)
        : Follower.start(this.controller, name, enforced);
    });
    const started = await Promise.all(starting);
    this.#followers = started.filter((agent) => agent instanceof Follower);
    this.#kernel = started.find((agent) => agent instanceof KernelAgent) ?? null;
    const kernel = this.#kernel;
    await until('the kernel has rules', async () =>
      ((await kernel?.rules().catch(() => '')) ?? '').includes('change-0'),
    );
  }

  /** Changes policies for a time (milliseconds). Rejects if an agent does not get one. */
  async #run(time: number, times: Times): Promise<void> {
    for (const end = performance.now() + time; performance.now() < end; ) {
      await this.#change(times);
      await sleep(PAUSE);
    }
  }

  async #change(times: Times): Promise<void> {
    const count = ++this.#count;
    const rule = `change-${count}`;
    const done = new Promise<void>((resolve) => {
      const change = { at: performance.now(), missing: new Set(names()), times, done: resolve };
      this.#changes.set(rule, change);
    });
    this.api.objects.put(POLICIES, policy(count % CHURNED, count));
    const late = new AbortController();
    await Promise.race([done, sleep(MISSED, null, { signal: late.signal, ref: false }).catch(() => {})]);
    late.abort();
    const missing = [...(this.#changes.get(rule)?.missing ?? [])];
    assert.deepEqual(missing, [], `${rule} is not there after ${MISSED} ms\n${this.controller.log}`);
    this.#changes.delete(rule);
  }

  #enforced(name: string, rule: string, at: number): void {
    const change = this.#changes.get(rule);
    if (change === undefined || !change.missing.delete(name)) return;
    const time = at - change.at;
    if (name === KERNEL) change.times.inKernel.push(time);
    else if (change.missing.difference(new Set([KERNEL])).size === 0) change.times.rendered.push(time);
    if (change.missing.size === 0) change.done();
  }

  /** As the kubelet of the victim may: its Node gets other addresses and labels. */
  #poison(): void {
    this.api.objects.put(NODES, node(VICTIM, 100 + Math.floor(Math.random() * 100), 64));
  }
}

/** Of all agents. */
function names(): string[] {
  return [...Array.from({ length: FOLLOWERS }, (_, index) => `follower-${index}`), KERNEL];
}

function node(name: string, index: number, addresses: number): { metadata: { name: string } } {
  const all = Array.from({ length: addresses }, (_, at) => {
    return { type: 'InternalIP', address: `192.0.${index}.${1 + at}` };
  });
  const labels = { role: 'worker', index: String(index) };
  const object = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels }, status: { addresses: all } };
  return object;
}

/** With a rule for Nodes, which poisoned addresses concern, and one that changes. */
function policy(index: number, count: number): { metadata: { name: string } } {
  const workers = { nodeSelector: { matchLabels: { role: 'worker' } } };
  const object = {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: `churn-${index}`, uid: `churn-${index}`, generation: 1 + count },
    spec: {
      priority: 1 + index,
      appliedTo: [{ nodeSelector: {} }],
      ingress: [
        {
          name: `change-${count}`,
          action: 'Drop',
          from: [{ ipBlock: { cidr: `198.18.${(count >> 8) & 255}.${count & 255}/32` } }],
          ports: [{ protocol: 'TCP', port: 10_000 + count }],
        },
        {
          name: 'workers',
          action: 'Allow',
          from: [workers],
          ports: [{ protocol: 'TCP', port: 1000 + index }],
        },
      ],
    },
  };
  return object;
}

/** The name of the rule of a policy that changes, after so many changes in all. */
function lastChange(index: number, count: number): string {
  const last = count - ((count - index + CHURNED) % CHURNED);
  return `change-${Math.max(0, last)}`;
}

function linesOf(state: NodeState): string {
  return [...snapshot(state)].map((message) => JSON.stringify(message)).join('\n');
}

const MiB = 1 << 20;
const FACTOR = 5;
/** Milliseconds: a shorter worst time without attacks is luck. */
const LEAST = 100;

/**
 * The worst time under attack is at most five times the worst without; or, where other programs had
 * the processors meanwhile, five times what as much work took elsewhere.
 */
export function assertInTime({ quiet, attacked, elsewhere }: Compared): void {
  for (const end of ['rendered', 'inKernel'] as const) {
    const [without, under] = [Math.max(...quiet[end]), Math.max(...attacked[end])];
    const found = `${end}: ${under.toFixed()} ms under attack (${attacked[end].length} changes), ${without.toFixed()} ms without (${quiet[end].length}), as much work elsewhere ${elsewhere.toFixed()} ms`;
    assert.ok(under <= FACTOR * Math.max(without, LEAST, elsewhere), found);
  }
}

/**
 * The bound of docs/cluster.md: 64 MiB for bodies, 0.5 GiB for the process that checks them, 64 KiB
 * for each connection.
 *
 * @param grown bytes more than before all attacks
 */
export function assertMemory(grown: number): void {
  const bound = (64 + 512) * MiB + SERVER_LIMITS.connections * 64 * 1024;
  assert.ok(grown < bound, `${Math.round(grown / MiB)} MiB more, and at most ${bound / MiB} are allowed`);
}
