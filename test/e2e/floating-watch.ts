import type { EgressLab } from '../kernel/egress-lab.ts';
import { until } from '../kernel/until.ts';
import { type Answer, type NeighbourWatch, watchNeighbours } from '../kernel/watch-neighbours.ts';

/** Who answers for floating addresses, by all answers on the link since the start. */
export class FloatingWatch {
  readonly #watch: NeighbourWatch;
  readonly #addresses: readonly string[];
  readonly #answers: Answer[] = [];
  /** Answers before this are of earlier steps. */
  #from = 0;

  static async start(lab: EgressLab, addresses: readonly string[]): Promise<FloatingWatch> {
    const nodes = new Map([...lab.nodes].map(([name, { namespace }]) => [name, namespace]));
    return new FloatingWatch(await watchNeighbours(lab.server, nodes, addresses), addresses);
  }

  private constructor(watch: NeighbourWatch, addresses: readonly string[]) {
    this.#watch = watch;
    this.#addresses = addresses;
  }

  close(): void {
    this.#watch.close();
  }

  /** The node that answers for every address; a new step begins. */
  async ownerOfAll(): Promise<string> {
    let owner: string | undefined;
    await this.#read();
    await until('one node has all addresses', async () => {
      this.#from = this.#answers.length;
      await this.#read();
      const owners = this.#addresses.map((address) => this.#last(address)?.node);
      [owner] = owners;
      return owner !== undefined && owners.every((one) => one === owner);
    });
    return owner ?? '';
  }

  async untilAll(node: string, detail: () => string): Promise<void> {
    // Answers of before wait.
    await this.#read();
    this.#from = this.#answers.length;
    const all = async (): Promise<boolean> => {
      await this.#read();
      return this.#addresses.every((address) => this.#last(address)?.node === node);
    };
    await until(`${node} has all addresses`, all, { detail });
  }

  /** Waits until `to` answers; returns for each address how long nobody did, in milliseconds. */
  async moved(from: string, to: string, detail: () => string): Promise<number[]> {
    const isThere = async (): Promise<boolean> => {
      await this.#read();
      return this.#addresses.every((address) => this.#last(address)?.node === to);
    };
    await until(`${to} answers after ${from}`, isThere, { detail });
    return this.#addresses.map((address) => {
      const of = this.#answers.slice(this.#from).filter((one) => one.address === address);
      const last = of.findLast(({ node }) => node === from)?.at ?? Number.NaN;
      return (of.find(({ node }) => node === to)?.at ?? Number.NaN) - last;
    });
  }

  /** The changes of owners since the last step began. */
  async changes(): Promise<string[]> {
    await this.#read();
    return this.#changes(this.#answers.slice(this.#from)).map(({ node }) => node);
  }

  /** Answers of a node after another one had begun to answer. */
  overlaps(): string[] {
    return this.#addresses.flatMap((address) => {
      const of = this.#answers.filter((one) => one.address === address);
      const changes = this.#changes(of);
      // A node that is back within this time had not stopped.
      return changes.flatMap(({ node, at }, i) => {
        const next = changes[i + 1];
        return next !== undefined && next.at - at < 20
          ? [`${address}: ${node} at ${at}, ${next.node} at ${next.at}`]
          : [];
      });
    });
  }

  #changes(answers: readonly Answer[]): Answer[] {
    return this.#addresses.flatMap((address) => {
      const of = answers.filter((one) => one.address === address);
      return of.filter(({ node }, i) => i > 0 && of[i - 1]?.node !== node);
    });
  }

  #last(address: string): Answer | undefined {
    return this.#answers.slice(this.#from).findLast((one) => one.address === address);
  }

  async #read(): Promise<void> {
    this.#answers.push(...(await this.#watch.answers()));
  }
}
