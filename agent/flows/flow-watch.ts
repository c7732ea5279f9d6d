import type { BegunBatch, ScannedConnection } from 'nftables-napi';
import { type Closable, keepOpen } from '../../lib/process/back-off.ts';
import { pause, type WallClock } from '../../lib/process/clock.ts';
import { ConnectionReader, type FlowFacts, isLive, type TrackedFlow } from './flow-facts.ts';
import type { FlowInventory } from './flow-inventory.ts';
import type { FlowKind } from './flow-kind.ts';

/** Milliseconds for which the kernel gathers events: the agent wakes ten times a second at most. */
export const GATHER = 100;
/** Events that are read in a second; reading one takes 1 µs. */
export const MOST_EVENTS = 2_000;
const SECOND = 1_000;
/** Milliseconds between two readings of the whole table, if nothing was missed. */
const HOUR = 3_600_000;
/** … if something was, at least; and the share of the time that readings take at most. */
const SOON = 10_000;
const SHARE = 100;
/** … and where the kernel makes no events. */
const WITHOUT_EVENTS = 30_000;
/**
 * Milliseconds between two readings of facts while connections begin, and while new flows do: they
 * wait for that, because a new pod has a route before it has connections.
 */
const FACTS = { known: 30_000, unknown: 2_000 } as const;
/** New flows that wait for facts; more are left out. */
const MOST_UNKNOWN = 10_000;

export interface FlowWatchOptions {
  readonly node: string;
  readonly inventory: FlowInventory;
  readonly clock: WallClock;
  readonly log: { error(message: string, fields: object): unknown };
  /** The link group of pods. */
  readonly pods: number;
  /** Opens a BegunMonitor; may throw. */
  readonly openMonitor: (pause: number, listener: (batch: BegunBatch) => void) => Closable;
  /** Visits the kernel's table of connections (Conntrack.scan). */
  readonly scan: (
    visit: (connection: ScannedConnection) => void,
    pause: () => boolean | Promise<boolean>,
  ) => Promise<void>;
  /** The same object while nothing changed. */
  readonly readFacts: () => Promise<FlowFacts>;
  /** Whether the kernel makes events at all (net.netfilter.nf_conntrack_events). */
  readonly hasEvents: boolean;
  readonly changed: () => void;
  readonly troubled: (trouble: 'overrun' | 'failed') => void;
}

/**
 * Keeps an inventory up to date: it reads the kernel's table of connections once, then each
 * connection that begins. In a second in which more than MOST_EVENTS begin, it listens no more, so
 * that the kernel makes no messages either. After that, and after an overrun, it reads the table
 * again, which takes a hundredth of the time at most. Nothing here waits for it, and its failures
 * are logged and have no other effect.
 */
export class FlowWatch {
  readonly #options: FlowWatchOptions;
  #reader: ConnectionReader | null = null;
  /** New flows, until facts have been read. */
  #unknown = new Set<TrackedFlow>();
  #readingFacts: Promise<void> | null = null;
  #factsAt = Number.NEGATIVE_INFINITY;
  #monitor: { close(): Promise<void> } | null = null;
  #second = { start: Number.NEGATIVE_INFINITY, events: 0 };
  /** The next reading of the table. */
  #planned = { at: Number.POSITIVE_INFINITY, cancel: (): void => {} };
  #earliest = Number.NEGATIVE_INFINITY;
  /** When the last reading of the table ended, in milliseconds since 1970; null: none succeeded. */
  #lastRead: number | null = null;
  #reading: Promise<boolean> | null = null;
  #failure = '';
  #resume = (): void => {};
  readonly #closing = new AbortController();

  constructor(options: FlowWatchOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    if (this.#options.hasEvents) this.#listen();
    await this.read();
  }

  /** When the table was last read, in milliseconds since 1970; null: it was not. */
  get lastRead(): number | null {
    return this.#lastRead;
  }

  /**
   * Reads the table of connections, unless it is being read, or was a moment ago; false: it cannot
   * be read. Events of connections that began before it are counted first.
   */
  read(): Promise<boolean> {
    if (this.#reading === null && this.#options.clock.now() < this.#earliest && this.#lastRead !== null)
      return Promise.resolve(true);
    this.#reading ??= this.#readNow().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#planned.cancel();
    this.#resume();
    await this.#monitor?.close();
    await Promise.all([this.#reading, this.#readingFacts]);
  }

  #listen(): void {
    const { node, clock, log, openMonitor, troubled } = this.#options;
    this.#monitor = keepOpen({
      clock,
      open: (failed, isAgain) => {
        const opened = openMonitor(GATHER, (batch) => {
          this.#receive(batch);
          if (batch.error !== null) failed(batch.error);
        });
        if (isAgain) this.#plan(SOON);
        return opened;
      },
      failed(error, retryIn) {
        troubled('failed');
        log.error('cannot watch connections for the flow inventory; enforcement continues', {
          node,
          error: error.message,
          retryIn,
        });
      },
    });
  }

  #receive({ each, overrun }: BegunBatch): void {
    if (this.#closing.signal.aborted || this.#monitor === null) return;
    const { clock, inventory, troubled, changed } = this.#options;
    const now = clock.now();
    if (now - this.#second.start >= SECOND) this.#second = { start: now, events: 0 };
    const wall = clock.date().getTime();
    const read = each((one) => this.#begun(one, wall), MOST_EVENTS - this.#second.events);
    this.#second.events += read;
    if (read > 0) changed();
    if (this.#unknown.size > 0 || now - this.#factsAt >= FACTS.known) this.#refresh();
    if (overrun) {
      inventory.missed.overruns++;
      troubled('overrun');
      this.#plan(SOON);
    }
    if (this.#second.events >= MOST_EVENTS) this.#rest(this.#second.start + SECOND - now);
  }

  #begun(one: ScannedConnection, now: number): void {
    this.#reader?.read(one, (known) => {
      if (known.isExempt) return;
      if (known.kind !== null)
        return this.#options.inventory.seen(known.kind, known.flow, { now, connections: 1 });
      if (known.waiting > 0) known.waiting++;
      else if (this.#unknown.size < MOST_UNKNOWN) {
        known.waiting = 1;
        this.#unknown.add(known);
      }
    });
  }

  /** Reads facts, and finds the kinds of new flows. */
  #refresh(): void {
    if (this.#readingFacts !== null) return;
    const { clock } = this.#options;
    const wait = Math.max(0, this.#factsAt + FACTS.unknown - clock.now());
    const read =
      wait === 0 ? this.#readFacts() : pause(clock, wait, this.#closing.signal).then(() => this.#readFacts());
    this.#readingFacts = read
      .catch((error: unknown) => this.#failed(error as Error))
      .finally(() => {
        this.#readingFacts = null;
      });
  }

  /** Too many connections begin: listens again after this time. */
  #rest(milliseconds: number): void {
    const { clock, inventory } = this.#options;
    inventory.missed.busySeconds++;
    void this.#monitor?.close();
    this.#monitor = null;
    this.#plan(SOON);
    this.#resume = clock.after(Math.max(0, milliseconds), () => {
      if (!this.#closing.signal.aborted) this.#listen();
    });
  }

  /**
   * A reading of the table, this many milliseconds from now or, if that is later, when it may be.
   */
  #plan(within: number): void {
    if (this.#closing.signal.aborted) return;
    const { clock } = this.#options;
    const at = Math.max(clock.now() + within, this.#earliest);
    if (this.#planned.at <= at) return;
    this.#planned.cancel();
    const cancel = clock.after(at - clock.now(), () => {
      this.#planned = { at: Number.POSITIVE_INFINITY, cancel() {} };
      void this.read();
    });
    this.#planned = { at, cancel };
  }

  async #readNow(): Promise<boolean> {
    const { clock, scan, hasEvents } = this.#options;
    let started = clock.now();
    try {
      if (this.#monitor !== null) await pause(clock, GATHER + GATHER / 2, this.#closing.signal);
      await this.#readFacts();
      const reader = this.#reader;
      if (reader === null || this.#closing.signal.aborted) return false;
      started = clock.now();
      await this.#scan(scan, reader);
      this.#lastRead = clock.date().getTime();
      this.#failure = '';
      return true;
    } catch (error) {
      this.#failed(error as Error);
      return false;
    } finally {
      this.#earliest = clock.now() + SHARE * (clock.now() - started);
      this.#plan(hasEvents ? HOUR : WITHOUT_EVENTS);
    }
  }

  /**
   * Connections of a kind that was known are not counted: they began before, and were seen then, or
   * an earlier agent saw them.
   */
  async #scan(scan: FlowWatchOptions['scan'], reader: ConnectionReader): Promise<void> {
    const { clock, inventory, changed } = this.#options;
    const live = new Map<FlowKind, number>();
    const found = new Set<FlowKind>();
    const now = clock.date().getTime();
    await scan(
      (one) => {
        const isOpen = isLive(one);
        reader.read(one, (known) => {
          const kind = known.isExempt ? null : (known.kind ?? this.#kindOf(known, reader.facts, now));
          if (kind === null) return;
          if (kind.connections === 0 && known.waiting === 0) found.add(kind);
          // Waiting connections began in the meantime, and are counted as that.
          const connections = found.has(kind) ? 1 : known.waiting;
          known.waiting = 0;
          inventory.seen(kind, known.flow, { now, connections });
          if (isOpen) live.set(kind, (live.get(kind) ?? 0) + 1);
        });
      },
      () => !this.#closing.signal.aborted,
    );
    for (const kind of inventory.kinds()) kind.live = live.get(kind) ?? 0;
    inventory.expire(now);
    changed();
  }

  async #readFacts(): Promise<void> {
    const { clock, inventory, readFacts, changed } = this.#options;
    // Also of a reading that fails: the next one is not at once.
    this.#factsAt = clock.now();
    const facts = await readFacts();
    this.#factsAt = clock.now();
    if (facts !== this.#reader?.facts) this.#reader = new ConnectionReader(facts);
    const unknown = this.#unknown;
    this.#unknown = new Set();
    const now = clock.date().getTime();
    for (const known of unknown) {
      const kind = this.#kindOf(known, facts, now);
      if (kind !== null) inventory.seen(kind, known.flow, { now, connections: known.waiting });
      known.waiting = 0;
    }
    if (unknown.size > 0) changed();
  }

  /** By facts that are of now. Null: no rule decides about the flow. */
  #kindOf(known: TrackedFlow, facts: FlowFacts, now: number): FlowKind | null {
    const { inventory, pods } = this.#options;
    known.flow = { ...known.flow, group: facts.groupOf(known.flow.peer) };
    // Connections of local pods are exempt from the rules for NodePorts.
    known.isExempt = known.flow.traffic === 'NodePort' && known.flow.group === pods;
    if (known.isExempt) return null;
    known.kind = inventory.kindOf(known.flow, now);
    return known.kind;
  }

  #failed({ message }: Error): void {
    const { node, log } = this.#options;
    if (message !== this.#failure)
      log.error('cannot read connections for the flow inventory; trying again, enforcement continues', {
        node,
        error: message,
      });
    this.#failure = message;
  }
}
