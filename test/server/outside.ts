import { flood } from '../kernel/flood-tool.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';

export const ADDRESSES = {
  machine: '192.0.2.10',
  gateway: '192.0.2.1',
  /** Of the network that the example's policy lets in by SSH. */
  friend: '198.51.100.7',
  stranger: '203.0.113.9',
} as const;
type Sender = 'friend' | 'stranger';

/** Of both ends: nobody asks for a neighbour, so the first packet arrives. */
export const MAC = { machine: '02:00:00:00:00:01', outside: '02:00:00:00:00:02' } as const;
/** Outside's end of the cable. */
export const LINK = 'server';
/** Packets a second of each sender. */
const RATE = 1_000;

/** Every answer counts, a reset of a closed port too: a packet that rules drop has none. */
const COUNTERS = `table inet seen {
  counter friend { }
  counter stranger { }
  chain input {
    type filter hook input priority -300
    ip saddr ${ADDRESSES.machine} tcp sport 22 ip daddr ${ADDRESSES.friend} counter name friend
    ip saddr ${ADDRESSES.machine} tcp sport 22 ip daddr ${ADDRESSES.stranger} counter name stranger
  }
}
`;

/** A neighbour of the machine, which opens connections to its SSH port, and counts the answers. */
export class Outside {
  readonly namespace: Namespace;
  #isConnected = false;

  private constructor(namespace: Namespace) {
    this.namespace = namespace;
  }

  static async create(): Promise<Outside> {
    const namespace = await createNamespace('outside');
    await namespace.run(['ip', 'link', 'set', 'lo', 'up']);
    for (const name of ['friend', 'stranger'] as const)
      await namespace.run(['ip', 'address', 'add', `${ADDRESSES[name]}/32`, 'dev', 'lo']);
    await namespace.run(['nft', '-f', '-'], { stdin: COUNTERS });
    return new Outside(namespace);
  }

  /** The cable to a container that is being started; its end there is `host0`, and down. */
  async connect({ pid }: Namespace): Promise<void> {
    const ends = ['address', MAC.outside, 'type', 'veth'];
    const peer = ['peer', 'name', 'host0', 'address', MAC.machine, 'netns', String(pid)];
    await this.namespace.run(['ip', 'link', 'add', LINK, ...ends, ...peer]);
    await this.#use();
  }

  /** The cable to the network card of a virtual machine that is being switched on. */
  async connectCard(): Promise<void> {
    await this.namespace.run(['ip', 'tuntap', 'add', 'name', LINK, 'mode', 'tap']);
    await this.namespace.run(['ip', 'link', 'set', LINK, 'address', MAC.outside]);
    await this.#use();
  }

  async #use(): Promise<void> {
    const neighbour = ['to', ADDRESSES.machine, 'dev', LINK, 'lladdr', MAC.machine, 'nud', 'permanent'];
    const steps = [
      ['address', 'add', `${ADDRESSES.gateway}/24`, 'dev', LINK],
      ['link', 'set', LINK, 'up'],
      ['neighbour', 'replace', ...neighbour],
    ];
    for (const step of steps) await this.namespace.run(['ip', ...step]);
    this.#isConnected = true;
  }

  async disconnect(): Promise<void> {
    if (!this.#isConnected) return;
    await this.namespace.run(['ip', 'link', 'del', LINK], { anyStatus: true });
    this.#isConnected = false;
  }

  /** The answers that each sender has got since the last call. */
  async answers(): Promise<Record<Sender, number>> {
    const { stdout } = await this.namespace.run(['nft', '-j', 'reset', 'counters', 'table', 'inet', 'seen']);
    const found: Record<Sender, number> = { friend: Number.NaN, stranger: Number.NaN };
    for (const { counter } of JSON.parse(stdout).nftables)
      if (counter?.name in found) found[counter.name as Sender] = counter.packets;
    return found;
  }

  /** Begins to open connections, RATE a second, until the returned function is called: how many. */
  flood(sender: Sender): Promise<() => Promise<number>> {
    const ends = { src: ADDRESSES[sender], dst: ADDRESSES.machine };
    return flood(this.namespace, { ...ends, protocol: 6, port: 22, rate: RATE });
  }

  close(): Promise<void> {
    return this.namespace.close();
  }
}
