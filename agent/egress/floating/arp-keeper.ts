import { isDeepStrictEqual } from 'node:util';
import { type BatchOperation, type Elements, type Expression, type Netlink, NftError } from 'nftables-napi';
import { lastAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import { Lane } from '../../../lib/process/lane.ts';
import type { Log } from '../../../lib/process/log.ts';
import { ARP_CHAINS, ARP_SETS, ARP_TABLE, type ArpTable } from '../render/arp-table.ts';

const TABLE = { family: ARP_TABLE.family, table: ARP_TABLE.name } as const;
/** nft's data type ipv4_addr. */
const KEY = { type: 7, length: 4 } as const;
const REGISTER = 1;
/** Offsets in the ARP packet: operation, sender's and target's IPv4 address. */
const OPERATION = 6;
const SENDER = 14;
const TARGET = 24;
const REQUEST = Uint8Array.of(0, 1);

/** Makes the table `arp nodewall` as it is wanted. Calls must not overlap. */
export class ArpKeeper {
  readonly #netlink: Pick<Netlink, 'batch' | 'snapshot' | 'elements'>;
  #wanted: ArpTable | null = null;
  /**
   * The kernel's rules right after they were made; null: none were made yet, or they changed since.
   */
  #made: Found | null = null;

  constructor(netlink: Pick<Netlink, 'batch' | 'snapshot' | 'elements'>) {
    this.#netlink = netlink;
  }

  /**
   * In one transaction, without a moment in which the table does less; the elements of its live set
   * stay. @returns whether anything was changed
   */
  async apply(wanted: ArpTable | null): Promise<boolean> {
    if (this.#made !== null && isDeepStrictEqual(wanted, this.#wanted)) return false;
    this.#wanted = wanted;
    this.#made = null;
    if (wanted === null) return await this.remove();
    try {
      await this.#netlink.batch(operations(wanted));
    } catch (error) {
      if (!(error instanceof NftError) || !IN_THE_WAY.has(error.code)) throw error;
      await this.#netlink.batch([
        { ...TABLE, op: 'addTable' },
        { ...TABLE, op: 'deleteTable' },
        ...operations(wanted),
      ]);
    }
    this.#made = await this.#read();
    return true;
  }

  /** @returns whether somebody else changed it; then the next apply makes it again */
  async verify(): Promise<boolean> {
    if (this.#made === null || isDeepStrictEqual(await this.#read(), this.#made)) return false;
    this.#made = null;
    return true;
  }

  /** @returns whether it was there */
  async remove(): Promise<boolean> {
    try {
      await this.#netlink.batch([{ ...TABLE, op: 'deleteTable' }]);
      return true;
    } catch (error) {
      if (error instanceof NftError && error.code === 'ENOENT') return false;
      throw error;
    }
  }

  async #read(): Promise<Found> {
    const table = await this.#netlink.snapshot(TABLE.family, TABLE.table);
    const floating = await this.#netlink.elements({ ...TABLE, set: ARP_SETS.floating });
    return {
      floating,
      isDormant: table?.isDormant ?? null,
      sets: table?.sets.map(({ name, flags }) => ({ name, flags })) ?? [],
      chains:
        table?.chains.map(({ name, base, rules }) => ({
          name,
          base,
          rules: rules.map(({ digest }) => digest),
        })) ?? [],
    };
  }
}

/** All but handles and counters, and the elements of the live set. */
interface Found {
  readonly floating: Elements | null;
  readonly isDormant: boolean | null;
  readonly sets: readonly object[];
  readonly chains: readonly object[];
}

/** A set or chain of the same name is of another kind. */
const IN_THE_WAY: ReadonlySet<string> = new Set(['EEXIST', 'EBUSY', 'EOPNOTSUPP', 'EINVAL']);

function operations(table: ArpTable): BatchOperation[] {
  const rules: Readonly<Record<'input' | 'output', readonly Expression[]>> = {
    input: [
      load(OPERATION, 2),
      { kind: 'cmp', register: REGISTER, operator: 'eq', value: REQUEST },
      ...dead(TARGET),
    ],
    output: dead(SENDER),
  };
  return [
    { ...TABLE, op: 'addTable' },
    { ...TABLE, op: 'addSet', set: ARP_SETS.live, key: KEY, timeout: true, id: 1 },
    { ...TABLE, op: 'addSet', set: ARP_SETS.floating, key: KEY, interval: true, id: 2 },
    { ...TABLE, op: 'flush', set: ARP_SETS.floating },
    { ...TABLE, op: 'add', set: ARP_SETS.floating, keyLength: KEY.length, ranges: ranges(table) },
    ...(['input', 'output'] as const).flatMap((hook): BatchOperation[] => {
      const chain = ARP_CHAINS[hook];
      const base = { type: 'filter', hook, priority: 0, policy: 'accept' } as const;
      return [
        { ...TABLE, op: 'addChain', chain, base },
        { ...TABLE, op: 'flushChain', chain },
        { ...TABLE, op: 'addRule', chain, expressions: rules[hook] },
      ];
    }),
  ];
}

function load(offset: number, length: number): Expression {
  return { kind: 'payload', base: 'network', offset, length, register: REGISTER };
}

function dead(offset: number): Expression[] {
  const lookup = (set: string, inverted: boolean): Expression[] => [
    load(offset, KEY.length),
    { kind: 'lookup', register: REGISTER, set, ...(inverted ? { inverted } : {}) },
  ];
  const drop: Expression = { kind: 'verdict', verdict: { kind: 'drop' } };
  return [...lookup(ARP_SETS.floating, false), ...lookup(ARP_SETS.live, true), { kind: 'counter' }, drop];
}

function ranges({ singles, prefixes }: ArpTable): Uint8Array {
  const pairs: Uint8Array[] = [];
  for (let at = 0; at < singles.length; at += KEY.length) {
    const key = singles.subarray(at, at + KEY.length);
    pairs.push(key, key);
  }
  for (const cidr of prefixes) {
    pairs.push(packAddress(cidr), packAddress({ family: 4, value: lastAddress(cidr) }));
  }
  return Buffer.concat(pairs);
}

interface ArpSilenceOptions {
  readonly keeper: Pick<ArpKeeper, 'apply' | 'verify'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Milliseconds until a failure is tried again. */
const RETRY = 10_000;

/** Keeps the table for ARP as it was wanted last: a failure is logged, and tried again. */
export class ArpSilence {
  readonly #options: ArpSilenceOptions;
  readonly #lane = new Lane();
  #wanted: ArpTable | null = null;
  #problem: Error | null = null;
  #cancel: () => void = () => {};
  #isClosed = false;

  constructor(options: ArpSilenceOptions) {
    this.#options = options;
  }

  /** Why the kernel may answer for an address that is not alive; null: it is silent. */
  get problem(): Error | null {
    return this.#problem;
  }

  apply(table: ArpTable | null): Promise<void> {
    this.#wanted = table;
    return this.#lane.run(() => this.#try());
  }

  /** @returns whether somebody else changed it; then the next apply makes it again */
  verify(): Promise<boolean> {
    return this.#lane.run(() => this.#options.keeper.verify());
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  async #try(): Promise<void> {
    const { keeper, clock, log } = this.#options;
    this.#cancel();
    try {
      await keeper.apply(this.#wanted);
      this.#problem = null;
    } catch (thrown) {
      const error = thrown as Error;
      if (error.message !== this.#problem?.message) {
        const message =
          'cannot make the table arp nodewall: this node takes no floating IPv4 address; retrying';
        log.error(message, { stage: 'egress', error: error.message });
      }
      this.#problem = error;
      if (this.#isClosed) return;
      this.#cancel = clock.after(RETRY, () => void this.#lane.run(() => this.#try()));
    }
  }
}
