import {
  type BatchOperation,
  type Generation,
  type Netlink,
  NftError,
  type TimedElements,
} from 'nftables-napi';
import { type Family, familyOf, formatAddress, parseAddress, WIDTH } from '../../../lib/net/address.ts';
import { packAddress, unpackAddress } from '../../../lib/net/member-set.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import { Lane } from '../../../lib/process/lane.ts';
import type { Kernel } from '../../apply/netlink/kernel.ts';
import type { ElementsCommand } from '../../apply/plan/command.ts';
import { TABLE } from '../../render/ruleset.ts';
import type { Renewal } from '../floating-kernel.ts';
import { ARP_SETS, ARP_TABLE } from '../render/arp-table.ts';
import { EGRESS_NAMES } from '../render/tunnel-rules.ts';

/** One set of the kernel that has floating addresses while they are alive. */
interface LiveSet {
  readonly family: 'inet' | 'arp';
  readonly table: string;
  readonly set: string;
}

const INET = { family: TABLE.family, table: TABLE.name } as const;
const ARP: LiveSet = { family: ARP_TABLE.family, table: ARP_TABLE.name, set: ARP_SETS.live };
/** An IPv4 address is alive if it is in both; else only one half of its silence ends. */
const SETS: Readonly<Record<Family, readonly LiveSet[]>> = {
  4: [{ ...INET, set: EGRESS_NAMES.live(4) }, ARP],
  6: [{ ...INET, set: EGRESS_NAMES.live(6) }],
};

/** Those of the table that the reconciler keeps. */
export const LIVE_SETS: readonly string[] = [EGRESS_NAMES.live(4), EGRESS_NAMES.live(6)];

/** Milliseconds: the kernel rounds timeouts up to its clock's ticks. */
const TICK = 10;
/** Milliseconds that the way to the kernel may take before a timeout is set again. */
const SLOW = 50;

interface LiveSetsOptions {
  readonly netlink: Pick<Netlink, 'batch'>;
  readonly timed: Pick<TimedElements, 'read'>;
  readonly clock: Pick<Clock, 'now'>;
  /** A transaction of ours that changed nothing but these elements. */
  readonly committed: (generation: Readonly<Generation>) => void;
}

interface LiveElement {
  readonly address: string;
  /** The time left: of several sets the longest. */
  readonly milliseconds: number;
  /** It is in all of its sets. */
  readonly isWhole: boolean;
}

/**
 * The elements of the live sets in both tables: what keeps floating addresses alive. Their times
 * are given as moments of the clock, and become timeouts right before they are sent. Where that
 * took long (the process was stopped), they are set again, so that nothing is alive beyond its
 * moment.
 */
export class LiveSets {
  readonly #options: LiveSetsOptions;
  /** Not for renewals, which bring nothing back to life: a table's replacement may take seconds. */
  readonly #lane = new Lane();

  constructor(options: LiveSetsOptions) {
    this.#options = options;
  }

  async read(): Promise<readonly LiveElement[]> {
    const found = new Map<string, number[]>();
    for (const family of [4, 6] as const) {
      for (const set of SETS[family]) {
        for (const { key, milliseconds } of (await this.#options.timed.read(set)) ?? []) {
          if (key.length !== WIDTH[family]) continue;
          const address = formatAddress(unpackAddress(family, key, 0));
          found.set(address, [...(found.get(address) ?? []), milliseconds]);
        }
      }
    }
    return [...found].map(([address, left]) => ({
      address,
      milliseconds: Math.max(...left),
      isWhole: left.length === SETS[familyOf(address)].length,
    }));
  }

  /** Makes addresses alive that are not. @returns those whose time is over */
  add(wanted: readonly Renewal[]): Promise<readonly string[]> {
    return this.#lane.run(async () => {
      // A refused deletion would cost the kernel a grace period.
      const there = new Set((await this.read()).map(({ address }) => address));
      await this.#delete(wanted.flatMap(({ address }) => (there.has(address) ? address : [])));
      return await this.#set(wanted, false);
    });
  }

  /** Gives living addresses another end. @returns those that are not alive any more */
  renew(renewals: readonly Renewal[]): Promise<readonly string[]> {
    return this.#set(renewals, true);
  }

  delete(addresses: readonly string[]): Promise<void> {
    return this.#lane.run(() => this.#delete(addresses));
  }

  /**
   * The kernel, but where the whole table `inet nodewall` is replaced, what is alive stays alive as
   * long as it would have. Nothing is deleted meanwhile, which would come back.
   */
  keptIn(kernel: Kernel): Kernel {
    return {
      ...kernel,
      transact: (commands) => {
        const isReplaced =
          commands.some(({ kind }) => kind === 'deleteTable') &&
          commands.some((command) => command.kind === 'addSet' && command.set.timed);
        if (!isReplaced) return kernel.transact(commands);
        return this.#lane.run(() => this.#replaced(kernel, commands));
      },
    };
  }

  async #replaced(kernel: Kernel, commands: Parameters<Kernel['transact']>[0]) {
    const { clock, timed } = this.#options;
    const ends: Renewal[] = [];
    const more: ElementsCommand[] = [];
    for (const family of [4, 6] as const) {
      const set = { ...INET, set: EGRESS_NAMES.live(family) };
      const found = ((await timed.read(set)) ?? []).filter(({ milliseconds }) => milliseconds > TICK);
      if (found.length === 0) continue;
      for (const { key, milliseconds } of found)
        ends.push({
          address: formatAddress(unpackAddress(family, key, 0)),
          until: clock.now() + milliseconds,
        });
      more.push({
        kind: 'addElements',
        set: set.set,
        keyLength: WIDTH[family],
        interval: false,
        keys: Buffer.concat(found.map(({ key }) => key)),
        timeouts: found.map(({ milliseconds }) => Math.floor(milliseconds)),
      });
    }
    const done = await kernel.transact([...commands, ...more]);
    // The transaction took its time, and the timeouts began with it.
    const over = await this.#set(ends, true, [INET.family]);
    await this.#delete(over);
    return done;
  }

  async #set(
    wanted: readonly Renewal[],
    isThere: boolean,
    families: readonly LiveSet['family'][] = ['inet', 'arp'],
  ): Promise<string[]> {
    const { clock } = this.#options;
    const over = new Set<string>();
    for (;;) {
      const now = clock.now();
      for (const { address, until } of wanted) if (until - now <= TICK) over.add(address);
      const rest = wanted.filter(({ address }) => !over.has(address));
      // An element that is over is not left to its old timeout.
      if (rest.length === 0) break;
      const steps = rest.flatMap(({ address, until }) =>
        elements(address, families).flatMap((element): Step[] => [
          ...(isThere ? [{ address, operation: { ...element, op: 'delete' } } as const] : []),
          {
            address,
            operation: { ...element, op: 'add', timeouts: [Math.max(1, Math.floor(until - now - TICK))] },
          },
        ]),
      );
      const missing = await this.#commit(steps);
      for (const address of missing) over.add(address);
      if (missing.size > 0) continue;
      if (clock.now() - now <= SLOW) break;
      isThere = true;
    }
    if (isThere) await this.#delete([...over]);
    return [...over];
  }

  async #delete(addresses: readonly string[]): Promise<void> {
    let steps = addresses.flatMap((address) =>
      elements(address).map((element): Step => ({ address, operation: { ...element, op: 'delete' } })),
    );
    while (steps.length > 0) {
      const refused = new Set<BatchOperation>();
      await this.#commit(steps, refused);
      if (refused.size === 0) return;
      steps = steps.filter(({ operation }) => !refused.has(operation));
    }
  }

  /**
   * One transaction.
   * @returns the addresses that are not there any more; then nothing was changed
   */
  async #commit(steps: readonly Step[], refused = new Set<BatchOperation>()): Promise<Set<string>> {
    try {
      const { generation } = await this.#options.netlink.batch(steps.map(({ operation }) => operation));
      this.#options.committed(generation);
      return new Set();
    } catch (error) {
      if (!(error instanceof NftError)) throw error;
      const failed = error.all.map(({ code, operation }) =>
        code === 'ENOENT' ? steps[operation ?? steps.length] : undefined,
      );
      const missing = failed.flatMap((step) => step ?? []);
      if (missing.length < failed.length || missing.some(({ operation }) => operation.op !== 'delete')) {
        throw error;
      }
      for (const { operation } of missing) refused.add(operation);
      return new Set(missing.map(({ address }) => address));
    }
  }
}

interface Step {
  readonly address: string;
  readonly operation: BatchOperation;
}

function elements(address: string, families: readonly LiveSet['family'][] = ['inet', 'arp']) {
  const parsed = parseAddress(address);
  if (parsed === null) throw new RangeError(`${address} is no address`);
  const { family } = parsed;
  const keys = packAddress(parsed);
  return SETS[family]
    .filter((set) => families.includes(set.family))
    .map((set) => ({ ...set, keyLength: WIDTH[family], keys }));
}
