import { loadBinding, type NativeSocket, requireName, type TableFamily, toFamilyNumber } from './binding.ts';
import { ClosableLane } from './closable.ts';
import { type Elements, toElements } from './elements.ts';
import { type DescribeOperation, type ErrnoTable, toErrnoTable, toNftError } from './errors.ts';
import { type BatchOperation, describeOperation, putOperation, type SetName } from './operation.ts';
import { RecordWriter } from './record.ts';
import { type ChainsSnapshot, type TableSnapshot, toSnapshot } from './snapshot.ts';

/**
 * The nf_tables generation: a number that grows by one with every commit in the network namespace,
 * by any process.
 */
export interface Generation {
  /** Read right before the transaction. */
  before: number;
  /** Read right after it: `before + 1` if it committed and no other process did. */
  after: number;
}

/** Final counters of one deleted rule; `operation` is the index of its flushChain in the batch. */
export interface LastCount {
  operation: number;
  packets: bigint;
  bytes: bigint;
}

/** The result of a batch. */
export interface BatchResult {
  /** Equal numbers if there was nothing to send. */
  generation: Generation;
  /**
   * The final counters of each rule with a counter that a `flushChain` with `counts` deleted, as of
   * the commit; by the operation's index, in the order of the chain. A packet that was passing the
   * rule at that moment may be missing.
   */
  lastCounts: LastCount[];
  /**
   * Wall-clock microseconds on the worker thread: `build` to build the messages, `kernel` to send
   * them, including the kernel's work.
   */
  microseconds: { build: number; kernel: number };
}

/**
 * A NETLINK_NETFILTER socket for nf_tables, bound to the network namespace in which it is created.
 *
 * Calls run on libuv's thread pool, one after another in call order. All methods return promises
 * and never throw synchronously: they reject with a TypeError or RangeError for wrong arguments,
 * with an NftError for errors of the kernel, and with code CLOSED after close(). The constructor
 * throws an NftError if the socket cannot be opened.
 */
export class Netlink {
  readonly #binding = loadBinding();
  readonly #errnos: ErrnoTable;
  readonly #socket: NativeSocket;
  readonly #lane = new ClosableLane('Netlink');

  constructor() {
    this.#errnos = toErrnoTable(this.#binding.errors);
    try {
      this.#socket = new this.#binding.Socket();
    } catch (error) {
      throw toNftError(error, this.#errnos);
    }
  }

  /**
   * Performs all operations in order, in one transaction: all of them or none. Buffers are copied
   * before this returns. NftError: `operation` is the index of the first refused operation. Needs
   * CAP_NET_ADMIN (else EPERM).
   */
  batch(operations: readonly BatchOperation[]): Promise<BatchResult> {
    return this.#attempt(() => {
      if (!Array.isArray(operations)) throw new TypeError('operations must be an array');
      const writer = new RecordWriter();
      for (const [index, operation] of operations.entries()) {
        putOperation(writer, operation, index, this.#binding);
      }
      const describe = (index: number) => {
        const operation = operations[index];
        return operation ? `operation ${index} (${describeOperation(operation)})` : null;
      };
      return this.#run(async () => {
        const { before, after, build, kernel, lastCounts } = await this.#socket.batch(writer.records);
        return { generation: { before, after }, lastCounts, microseconds: { build, kernel } };
      }, describe);
    });
  }

  /**
   * The elements of a set; null if the set or its table does not exist. EINTR if commits
   * interrupted every attempt of the dump.
   */
  elements(name: SetName): Promise<Elements | null> {
    return this.#attempt(() => {
      const family = toFamilyNumber(name.family, this.#binding);
      const { table, set } = name;
      requireName(table, 'table');
      requireName(set, 'set');
      return this.#run(async () => {
        const found = await this.#socket.elements(family, table, set);
        return found && toElements(found, this.#binding);
      });
    });
  }

  /**
   * Chains, rules and sets of a table, as of one generation; null if it does not exist. EINTR as
   * with elements().
   */
  snapshot(family: TableFamily, table: string): Promise<TableSnapshot | null> {
    return this.#attempt(() => {
      const number = toFamilyNumber(family, this.#binding);
      requireName(table, 'table');
      return this.#run(async () =>
        toSnapshot(await this.#socket.snapshot(number, table), family, this.#binding),
      );
    });
  }

  /**
   * Only these chains of a table with their rules, ordered by name, as of one generation; chains
   * that do not exist are left out. The cost depends on these chains, not on the table. The digests
   * are those of snapshot(). EINTR as with elements().
   */
  chains(family: TableFamily, table: string, names: readonly string[]): Promise<ChainsSnapshot> {
    return this.#attempt(() => {
      const number = toFamilyNumber(family, this.#binding);
      requireName(table, 'table');
      if (!Array.isArray(names)) throw new TypeError('names must be an array');
      const distinct = [...new Set(names)];
      for (const name of distinct) requireName(name, 'chain');
      return this.#run(async () => {
        const json = await this.#socket.chains(number, table, distinct);
        const found = toSnapshot(json, family, this.#binding);
        return { generation: found?.generation ?? 0, chains: found?.chains ?? [] };
      });
    });
  }

  /** The current generation. */
  generation(): Promise<number> {
    return this.#run(() => this.#socket.generation());
  }

  /** Waits for pending calls, then closes the socket. Idempotent. */
  close(): Promise<void> {
    return this.#lane.close(() => this.#socket.close());
  }

  async #attempt<Result>(call: () => Promise<Result>): Promise<Result> {
    return call();
  }

  #run<Result>(call: () => Promise<Result>, describe?: DescribeOperation): Promise<Result> {
    return this.#lane.run(call, (error) => toNftError(error, this.#errnos, describe));
  }
}
