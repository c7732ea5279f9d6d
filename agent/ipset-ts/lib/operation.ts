/** Address family of a set: IPv4 (inet) or IPv6 (inet6). */
export type SetFamily = 'inet' | 'inet6';

/** A set of addresses, of networks, or of addresses each with a port. */
export interface SetDefinition {
  /** At most 31 bytes, no blanks or quotes, no `-` first. */
  readonly name: string;
  readonly type: 'hash:ip' | 'hash:net' | 'hash:ip,port';
  /** Default: inet. */
  readonly family?: SetFamily;
  /**
   * Initial number of buckets, 1,024 by default. The kernel rounds up to a power of two, at least
   * 64. Adding with ipset doubles it when buckets overflow.
   */
  readonly hashsize?: number;
  /** Limit of entries, 65,536 by default. An add beyond it is refused with FULL. */
  readonly maxelem?: number;
  /**
   * Seconds until an entry expires, unless it has others; 0: never. At most 2,147,483 (ipset counts
   * milliseconds in 31 bits). Without it, entries can have no timeout.
   */
  readonly timeout?: number;
}

/** Creates a set. */
export interface CreateOperation {
  readonly op: 'create';
  readonly set: SetDefinition;
}

/** Adds an entry to the set of this name. */
export interface AddOperation {
  readonly op: 'add';
  readonly set: string;
  /**
   * As ipset has it: `192.0.2.1`, `10.0.0.0/8`, `192.0.2.1,tcp:80`. /0 is refused, and ipset would
   * query DNS for the name of a host.
   */
  readonly entry: string;
  /** Seconds; 0: does not expire. */
  readonly timeout?: number;
}

/** Deletes an entry of the set of this name. */
export interface DelOperation {
  readonly op: 'del';
  readonly set: string;
  readonly entry: string;
}

/** Removes all entries of a set (flush), or the set itself (destroy). */
export interface NameOperation {
  readonly op: 'flush' | 'destroy';
  readonly name: string;
}

/** Exchanges the contents of two sets of one type and family, atomically for every packet. */
export interface SwapOperation {
  readonly op: 'swap';
  readonly from: string;
  readonly to: string;
}

/** A line of `ipset restore`. Values are written as they are. */
export type RestoreOperation = CreateOperation | AddOperation | DelOperation | NameOperation | SwapOperation;

/** ipset's arguments for one operation. */
export function toArguments(operation: RestoreOperation): string[] {
  switch (operation.op) {
    case 'create': {
      const { name, type, family, hashsize, maxelem, timeout } = operation.set;
      const options = Object.entries({ family, hashsize, maxelem, timeout });
      const given = options.filter(([, value]) => value !== undefined);
      return ['create', name, type, ...given.flatMap(([option, value]) => [option, String(value)])];
    }
    case 'add': {
      const { set, entry, timeout } = operation;
      return timeout === undefined ? ['add', set, entry] : ['add', set, entry, 'timeout', String(timeout)];
    }
    case 'del':
      return ['del', operation.set, operation.entry];
    case 'flush':
    case 'destroy':
      return [operation.op, operation.name];
    case 'swap':
      return ['swap', operation.from, operation.to];
  }
}

/** The operations as text for `ipset restore`, one line each. */
export function toRestoreText(operations: readonly RestoreOperation[]): string {
  return [...restoreParts(operations)].join('');
}

/** Lines per part: some tens of kilobytes, about the capacity of a pipe. */
const PART_LINES = 1000;

/** Like toRestoreText, in parts that are made on demand. */
export function* restoreParts(operations: readonly RestoreOperation[]): Generator<string, void, undefined> {
  for (let first = 0; first < operations.length; first += PART_LINES) {
    const part = operations.slice(first, first + PART_LINES);
    yield part.map((operation) => `${toArguments(operation).join(' ')}\n`).join('');
  }
}
