import assert from 'node:assert/strict';
import type { ClusterOfNodes, Machine } from '../cluster/cluster-of-nodes.ts';
import { leakedDuring } from '../kernel/flood-tool.ts';
import { createParty, type Party } from '../kernel/passed-by-party.ts';
import { until } from '../kernel/until.ts';

/** Nobody's rule is about it: it tells a closed port from a machine that is slow. */
const CONTROL_PORT = 7;
/** Machines answer here. */
const PORTS = [CONTROL_PORT, 22, 80, 443, 8080] as const;
/** Milliseconds until no answer is silence, if the control port answered meanwhile. */
const PATIENCE = 400;
/** Milliseconds, of what a controller or an agent brings about. */
const LIMIT = 45_000;

/** As a caller of both families sees a port. */
export type Reached = 'open' | 'closed' | 'refused';

/** Connections and packets between the machines of a story. */
export class StoryPackets {
  readonly #bed: ClusterOfNodes;
  /** The latest lines of all processes. */
  readonly #logs: () => string;
  readonly #parties = new Map<string, Promise<Party>>();

  constructor(bed: ClusterOfNodes, logs: () => string) {
    this.#bed = bed;
    this.#logs = logs;
  }

  /** See Story. */
  async sees(from: string, to: string, port: number, wanted: Reached): Promise<void> {
    const [caller, called] = [this.#bed.machine(from), this.#bed.machine(to)];
    let last: Reached | null = null;
    await until(
      `${from} sees port ${port} of ${to} ${wanted}`,
      async () => {
        last = await this.#reach(caller, called, port);
        return last === wanted;
      },
      { limit: LIMIT, detail: () => `last: ${last}\n${this.#logs()}` },
    );
  }

  /** See Story. */
  async gets(from: string, dst: string, port: number, wanted: string): Promise<void> {
    await Promise.all([...this.#bed.nodes, ...this.#bed.others].map((one) => this.#party(one)));
    const { v4: src } = this.#bed.machine(from);
    const caller = await this.#party(this.#bed.machine(from));
    let last = '';
    await until(
      `${from} at ${dst}:${port}: ${wanted}`,
      async () => {
        const call = { protocol: 'tcp', family: 4, src, dst, port, patience: 2 * PATIENCE } as const;
        last = (await caller.call(call)).outcome;
        return last === wanted;
      },
      { limit: LIMIT, detail: () => `last: ${last}\n${this.#logs()}` },
    );
  }

  /** See Story. */
  async withoutLeaks(to: string, port: number, action: () => Promise<void>): Promise<void> {
    const { namespace: node, ...called } = this.#bed.machine(to);
    const { namespace: client, ...caller } = this.#bed.machine('other1');
    const clientAddresses = [{ ...caller, client: 0, group: 0 }];
    const plan = { nodeAddresses: [called], clientAddresses, multicastGroups: [] };
    const target = { protocol: 'tcp', port, family: 4, rate: 500 } as const;
    const { sent, leaked } = await leakedDuring({ node, clients: [client], plan }, target, action);
    assert.ok(sent > 500, `only ${sent} packets`);
    assert.equal(leaked, 0, `leaked ${leaked} of ${sent}`);
  }

  /**
   * Both families must agree; null while they don't, or where a port that is open doesn't answer in
   * time.
   */
  async #reach(from: Machine, to: Machine, port: number): Promise<Reached | null> {
    const [caller] = await Promise.all([this.#party(from), this.#party(to)]);
    const ask = async (family: 4 | 6, asked: number): Promise<string> => {
      const [src, dst] = family === 4 ? [from.v4, to.v4] : [from.v6, to.v6];
      const call = { protocol: 'tcp', family, src, dst, port: asked, patience: PATIENCE } as const;
      return (await caller.call(call)).outcome;
    };
    const [first, second, ...control] = await Promise.all([
      ask(4, port),
      ask(6, port),
      ask(4, CONTROL_PORT),
      ask(6, CONTROL_PORT),
    ]);
    if (first !== second || control.some((outcome) => outcome !== 'answered')) return null;
    return first === 'answered' ? 'open' : first === 'silence' ? 'closed' : 'refused';
  }

  #party({ name, namespace, v4, v6 }: Machine): Promise<Party> {
    const listening = async (): Promise<Party> => {
      const one = createParty(namespace);
      await Promise.all([one.listen(v4, PORTS), one.listen(v6, PORTS)]);
      return one;
    };
    const found = this.#parties.get(name) ?? listening();
    this.#parties.set(name, found);
    return found;
  }
}
