import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { type Fold, fold } from '../../agent/receive/fold.ts';
import type { NodeState } from '../../apis/compiled.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import type { TestCluster } from '../cluster/cluster.ts';
import { nodeReport } from '../fake/node-state.ts';
import { agentToken, controllerCa } from './installed.ts';

const SERVICE = 'nodewall-controller.nodewall-system.svc';

/** Where a controller listens. */
export type Place = { readonly host: string; readonly port: number } | { readonly socketPath: string };

interface Connection {
  readonly ca: string;
  readonly token: string;
  /** The controllers that there are now. */
  readonly places: () => readonly Place[];
}

/** One for each Node; not started. The controllers must have written their CA. */
export async function simulatedAgents(
  cluster: TestCluster,
  names: readonly string[],
  places: () => readonly Place[],
): Promise<readonly SimulatedAgent[]> {
  const ca = await controllerCa(cluster);
  const agents: SimulatedAgent[] = [];
  for (const name of names) {
    agents.push(new SimulatedAgent(name, { ca, token: await agentToken(cluster, name), places }));
  }
  return agents;
}

/** Follows the view of a node at any of the controllers, and reports each state as in force. */
export class SimulatedAgent {
  readonly name: string;
  readonly #connection: Connection;
  readonly #fold: Fold;
  readonly #http = new Agent({ keepAlive: true, maxSockets: 2 });
  #revision: string | null = null;
  #answer: IncomingMessage | null = null;
  #isRunning = false;
  /** Whether it reports that it cannot enforce generations from this one on. */
  failsFrom = Number.POSITIVE_INFINITY;
  /** The generations of each policy that it was to enforce, one after the other; 0: none. */
  readonly history = new Map<string, number[]>();
  /** Called after each state. */
  enforced: (state: NodeState) => void = () => undefined;

  constructor(name: string, connection: Connection) {
    this.name = name;
    this.#connection = connection;
    this.#fold = fold(name);
  }

  start(): void {
    this.#isRunning = true;
    void this.#run();
  }

  stop(): void {
    this.#isRunning = false;
    this.#answer?.destroy();
    this.#http.destroy();
  }

  /** The generation of the policy that it enforces; 0: none. */
  generation(policy: string): number {
    return this.history.get(policy)?.at(-1) ?? 0;
  }

  async #run(): Promise<void> {
    for (let i = 0; this.#isRunning; i++) {
      const places = this.#connection.places();
      const place = places[(i + this.name.length) % Math.max(1, places.length)];
      if (place !== undefined) await this.#follow(place).catch(() => undefined);
      await pause(50);
    }
  }

  async #follow(place: Place): Promise<void> {
    const query = new URLSearchParams({ watch: 'true', fieldSelector: `metadata.name=${this.name}` });
    const held = this.#fold.current();
    if (this.#revision !== null) query.set('resourceVersion', this.#revision);
    const path = `${NODE_VIEWS_PATH}?${query}`;
    const answer = await this.#ask(
      place,
      { path, method: held === null ? 'GET' : 'POST' },
      held ?? undefined,
    );
    this.#answer = answer;
    if (answer.statusCode !== 200) return void answer.resume();
    this.#fold.begin(this.#revision !== null);
    for await (const line of createInterface({ input: answer })) {
      const folded = this.#fold.receive(JSON.parse(line));
      if (folded === null) continue;
      this.#revision = folded.revision;
      this.#note(folded.state);
      void this.#untilReported(place, folded.state, folded.revision);
    }
  }

  #note(state: NodeState): void {
    const now = new Map(state.rules.map(({ source }) => [source.policy, source.generation]));
    for (const policy of new Set([...this.history.keys(), ...now.keys()])) {
      const list = this.history.get(policy) ?? [];
      const generation = now.get(policy) ?? 0;
      if (list.at(-1) !== generation) list.push(generation);
      this.history.set(policy, list);
    }
    this.enforced(state);
  }

  /** Tries until the controller has accepted it, or there is a newer state. */
  async #untilReported(place: Place, state: NodeState, revision: string): Promise<void> {
    for (let wait = 50; this.#isRunning && this.#revision === revision; wait = Math.min(2 * wait, 1_000)) {
      if (await this.#report(place, state, revision).catch(() => false)) return;
      await pause(wait);
    }
  }

  /** Resolves to whether it was accepted. */
  async #report(place: Place, { rules }: NodeState, revision: string): Promise<boolean> {
    const failing = rules.filter(({ source }) => source.generation >= this.failsFrom);
    const report = nodeReport(this.name, revision, {
      failing: failing.map(({ source: { apiGroup, policy, generation, rule } }) => {
        return { apiGroup, policy, generation, rule, reason: 'no such file or directory' };
      }),
      policies: new Set(rules.map(({ source }) => source.policy)).size,
      time: new Date().toISOString(),
    });
    const answer = await this.#ask(
      place,
      { path: `${NODE_VIEWS_PATH}/${this.name}/status`, method: 'PUT' },
      report,
    );
    answer.resume();
    return (answer.statusCode ?? 500) < 300;
  }

  async #ask(place: Place, options: RequestOptions, body?: object): Promise<IncomingMessage> {
    const { ca, token } = this.#connection;
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const request = httpsRequest({
      ca,
      servername: SERVICE,
      agent: this.#http,
      headers,
      ...place,
      ...options,
    });
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const [answer] = await once(request, 'response');
    return answer;
  }
}
