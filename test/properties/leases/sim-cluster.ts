import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG } from '../../../apis/egress/config.ts';
import type { OwnedSlot } from '../../../apis/egress/node-egress.ts';
import type { EgressGateway, EgressGatewaySpec, EgressPolicy } from '../../../apis/egress/objects.ts';
import type { LeaseAnswer, LeaseRequest } from '../../../apis/heartbeat.ts';
import { NO_OBJECTS, type Node } from '../../../apis/objects.ts';
import { egressCompiler } from '../../../controller/egress/compile-egress.ts';
import { nodeEgressCompiler } from '../../../controller/egress/node-egress.ts';
import type { SlotMove } from '../../../controller/egress/owners/decide-gateway.ts';
import type { EgressStatus } from '../../../controller/egress/status/egress-status.ts';
import { fakeGateway, fakeNode, fakePolicy } from '../../fake/egress-objects.ts';
import { SimAgent } from './sim-agent.ts';
import { type ApiState, SimController } from './sim-controller.ts';
import { World } from './world.ts';

/** What goes wrong with messages. Shares of all messages, and milliseconds. */
interface Network {
  readonly delay: readonly [least: number, most: number];
  readonly slow: number;
  readonly slowDelay: number;
  readonly lost: number;
}

export const GOOD: Network = { delay: [1, 4], slow: 0, slowDelay: 0, lost: 0 };
export const SLOW: Network = { delay: [50, 350], slow: 0.02, slowDelay: 2000, lost: 0.02 };
export const BAD: Network = { delay: [1, 60], slow: 0.03, slowDelay: 4000, lost: 0.05 };

/** `unready: undefined`: it is ready. */
export interface NodeChange {
  readonly labels?: Node['labels'];
  readonly unready?: Node['unready'] | undefined;
}

interface SimClusterOptions {
  readonly seed: number;
  readonly agents: number;
  /** Of clocks; 0.01 is 1 %. */
  readonly rateError: number;
  readonly gateways?: Partial<EgressGatewaySpec>;
}

const CONTROLLERS = 2;
/** As in the election: a leader is certain for so long after it renewed (milliseconds). */
const RENEW_DEADLINE = 10_000;
const ALL_POOLS = ['198.51.100.1-198.51.100.3', '198.51.100.4-198.51.100.6'] as const;

/**
 * A cluster with floating addresses: API, two controllers, gateway nodes, and messages between
 * them.
 */
export class SimCluster {
  readonly world: World;
  readonly #options: SimClusterOptions;
  readonly agents = new Map<string, SimAgent>();
  controllers: SimController[] = [];
  network: Network = GOOD;
  /** Nodes whose messages are lost. */
  readonly cutOff = new Set<string>();
  readonly moves: SlotMove[] = [];
  #nodes: readonly Node[];
  #gateways: readonly EgressGateway[];
  #policies: readonly EgressPolicy[];
  readonly #compile = egressCompiler(DEFAULT_EGRESS_CONFIG);
  readonly #views = nodeEgressCompiler();
  #state: ApiState | null = null;
  #version = 0;
  #leader: SimController | null = null;
  #certainUntil = 0;
  isElectionStuck = false;

  constructor(options: SimClusterOptions) {
    this.#options = options;
    this.world = new World(options.seed);
    const names = Array.from({ length: options.agents }, (_, i) => `n${i}`);
    this.#nodes = names.map((name, i) => fakeNode(name, [`192.0.2.${i + 1}`]));
    this.#gateways = ['g1', 'g2'].map((name, i) => {
      const ranges = [ALL_POOLS[i] ?? ''];
      return { ...fakeGateway(name, { ...options.gateways, ranges }), uid: name };
    });
    this.#policies = [];
    for (let i = 0; i < CONTROLLERS; i++) this.controllers.push(this.#newController(names));
    for (const node of names) {
      const send = (request: LeaseRequest, answered: (answer: LeaseAnswer) => void): void =>
        this.#send(request, answered);
      const lives = (address: string): void => this.#check(address, node);
      this.agents.set(
        node,
        new SimAgent({ world: this.world, node, rateError: options.rateError, send, lives }),
      );
    }
    this.#publish();
    this.#elect();
  }

  get policies(): readonly EgressPolicy[] {
    return this.#policies;
  }

  get gateways(): readonly EgressGateway[] {
    return this.#gateways;
  }

  get leader(): SimController | null {
    return this.#leader;
  }

  /** The nodes on which an address is alive now. */
  readonly aliveOn = (address: string): string[] =>
    [...this.agents.values()].filter((agent) => agent.isAlive(address)).map(({ node }) => node);

  setPolicy(name: string, address: Partial<EgressPolicy['spec']['address']> | null, gateway = 'g1'): void {
    const others = this.#policies.filter((policy) => policy.name !== name);
    const before = this.#policies.find((policy) => policy.name === name);
    if (address === null) this.#policies = others;
    else {
      const spec = { gateway, address: { allocation: 'Shared', fixed: {}, count: 1, ...address } } as const;
      const made = { ...fakePolicy(name, spec), uid: name, generation: (before?.generation ?? 0) + 1 };
      this.#policies = [...others, { ...made, status: before?.status ?? null }];
    }
    this.#publish();
  }

  setNode(name: string, change: NodeChange): void {
    this.#nodes = this.#nodes.map((node) => {
      if (node.name !== name) return node;
      const { unready, labels = node.labels } = change;
      const { unready: before, ...rest } = node;
      const now = 'unready' in change ? unready : before;
      return { ...rest, labels, ...(now === undefined ? {} : { unready: now }) };
    });
    this.#publish();
  }

  setGateway(name: string, change: Partial<EgressGatewaySpec>): void {
    this.#gateways = this.#gateways.map((gateway) =>
      gateway.name === name
        ? { ...gateway, generation: gateway.generation + 1, spec: { ...gateway.spec, ...change } }
        : gateway,
    );
    this.#publish();
  }

  /** The leader's process ends, with all it knows, or gives its leadership back first. */
  replaceLeader(isReleased: boolean): void {
    const leader = this.#leader;
    if (leader === null) return;
    if (isReleased) {
      leader.lost();
      this.#leader = null;
      this.#certainUntil = this.world.now;
    }
    leader.process.isOver = true;
    const at = this.controllers.indexOf(leader);
    this.world.after(500, () => {
      this.controllers[at] = this.#newController([...this.agents.keys()]);
      if (this.#state !== null) this.controllers[at]?.see(this.#state);
    });
  }

  #newController(nodes: readonly string[]): SimController {
    const made: SimController = new SimController({
      world: this.world,
      rateError: this.#options.rateError,
      nodes,
      write: (path, status, over) => this.#write(path, status, over),
      isElected: () => this.#leader === made && this.world.now < this.#certainUntil,
      moved: (_gateway, moves) => this.moves.push(...moves),
    });
    return made;
  }

  /** Every second: the leader renews, or another one follows as soon as it can. */
  #elect(): void {
    const { world } = this;
    const leader = this.#leader;
    if (leader !== null && !leader.process.isOver && !this.isElectionStuck && world.now < this.#certainUntil)
      leader.process.run(() => {
        if (this.#leader === leader && world.now < this.#certainUntil)
          this.#certainUntil = world.now + RENEW_DEADLINE;
      });
    if (world.now >= this.#certainUntil) {
      leader?.lost();
      const other = this.controllers.filter((one) => one !== leader && !one.process.isOver);
      const next = world.pick(other.length > 0 ? other : this.controllers);
      if (!next.process.isOver) {
        this.#leader = next;
        this.#certainUntil = world.now + RENEW_DEADLINE;
        next.elected(this.#version);
      }
    }
    world.after(1000, () => this.#elect());
  }

  #publish(): void {
    const objects = {
      ...NO_OBJECTS,
      nodes: this.#nodes,
      egressGateways: this.#gateways,
      egressPolicies: this.#policies,
    };
    const compiled = this.#compile(objects);
    const views = this.#views(compiled);
    const versions = [...this.#gateways, ...this.#policies].map((object) => ({
      kind: object.kind,
      name: object.name,
      uid: object.uid,
      generation: object.generation,
      since: 0,
      path: `${object.kind}/${object.name}`,
      status: object.status as EgressStatus | null,
    }));
    const state = { version: ++this.#version, compiled, policies: this.#policies, versions };
    this.#state = state;
    for (const controller of this.controllers) this.#later(() => controller.see(state));
    for (const agent of this.agents.values()) {
      const owned = views.get(agent.node)?.owned ?? [];
      this.#tell(agent, owned, state.version);
    }
  }

  readonly #told = new Map<SimAgent, number>();

  /** A stream: in order; a version that a later one has overtaken is part of that. */
  #tell(agent: SimAgent, owned: readonly OwnedSlot[], version: number): void {
    const arrive = (): void => {
      if ((this.#told.get(agent) ?? 0) > version) return;
      if (this.cutOff.has(agent.node)) this.world.after(100, arrive);
      else {
        this.#told.set(agent, version);
        agent.see(owned);
      }
    };
    this.#later(arrive);
  }

  #write(path: string, status: EgressStatus, over: (isWritten: boolean) => void): void {
    const isLost = this.world.chance(this.network.lost);
    this.#later(() => {
      const isThere = !isLost || this.world.chance(0.5);
      if (isThere) this.#store(path, status);
      this.#later(() => over(!isLost));
    });
  }

  #store(path: string, status: EgressStatus): void {
    const put = <T extends EgressGateway | EgressPolicy>(objects: readonly T[]): readonly T[] =>
      objects.map((object) =>
        `${object.kind}/${object.name}` === path ? { ...object, status: status as T['status'] } : object,
      );
    this.#gateways = put(this.#gateways);
    this.#policies = put(this.#policies);
    this.#publish();
  }

  #later(run: () => void): void {
    const { delay, slow, slowDelay } = this.network;
    const extra = this.world.chance(slow) ? this.world.random() * slowDelay : 0;
    this.world.after(this.world.between(...delay) + extra, run);
  }

  /** To any controller, which passes it on to the one that leads. */
  #send(request: LeaseRequest, answered: (answer: LeaseAnswer) => void): void {
    const { world } = this;
    const isLost = (): boolean => world.chance(this.network.lost) || this.cutOff.has(request.node);
    const answer = (found: LeaseAnswer | null): void =>
      this.#later(() => {
        if (found !== null && !isLost()) answered(found);
      });
    if (isLost()) return;
    const first = world.pick(this.controllers);
    this.#later(() =>
      first.lease(request, (own) => {
        if (own !== null) return answer(own);
        for (const other of this.controllers)
          if (other !== first)
            this.#later(() => other.lease(request, (found) => this.#later(() => answer(found))));
      }),
    );
  }

  #check(address: string, node: string): void {
    const nodes = this.aliveOn(address);
    assert.deepEqual(
      nodes,
      [node],
      `${address} is alive on ${nodes.join(' and ')} after ${this.world.now} ms`,
    );
  }
}
