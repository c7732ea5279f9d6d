import { Worker } from 'node:worker_threads';
import type { NodeEgress, OwnedAddress } from '../../../apis/egress/node-egress.ts';
import { hasAddress } from '../../../lib/net/member-set.ts';
import { type Clock, monotonicClock } from '../../../lib/process/clock.ts';
import { siblingModule } from '../../../lib/process/exit.ts';
import type { Log } from '../../../lib/process/log.ts';
import type { Destination } from '../../receive/destinations.ts';
import type { Authorities } from '../../receive/https-call.ts';
import type { AddressConflict, FloatingKernel } from '../floating-kernel.ts';
import type {
  FromLeaseThread,
  KernelCall,
  LeaseCounts,
  LeaseThreadData,
  ToLeaseThread,
} from './lease-state.ts';

export interface LeaseThreadOptions extends Omit<LeaseThreadData, 'origin'> {
  readonly authorities: Authorities;
  /** The addresses at which the controller was reached. */
  readonly addresses: () => readonly string[];
  /** The controllers themselves. */
  readonly replicas: () => readonly Destination[];
  readonly kernel: FloatingKernel;
  /** That of `kernel`. */
  readonly clock: Clock;
  readonly log: Log;
  readonly counted: (counts: LeaseCounts) => void;
}

/**
 * Until authorities and addresses are sent again, and until a thread that ended is started again.
 */
const REFRESH = 30_000;
const RESTART = 1_000;
/** Until the kernel is read again after a failure (milliseconds). */
const READ_RETRY = 500;
/** The longest wait for a thread that is to release or to end (milliseconds). */
const LONGEST_END = 3_000;

/**
 * This node's leases of floating addresses, in a thread of their own (lease-worker.ts). The thread
 * begins with the first view that needs it: on most nodes, none ever does.
 */
export class LeaseThread {
  readonly #options: LeaseThreadOptions;
  #worker: Worker | null = null;
  #egress: NodeEgress | null = null;
  /** The egress of the rules in force; null: none are. */
  #inForce: NodeEgress | null = null;
  #health: Extract<ToLeaseThread, { kind: 'health' }> = {
    kind: 'health',
    unready: new Map(),
    unreachable: [],
  };
  readonly #drops: EarlyDrops;
  #isClosed = false;
  /** Whether addresses of an earlier process were looked for. */
  #isSwept = false;
  #cancelRefresh: () => void = () => {};
  #cancelRestart: () => void = () => {};
  /** Called with `released` or `stopped`, or if the thread ends. */
  #ended: () => void = () => {};

  constructor(options: LeaseThreadOptions) {
    this.#options = options;
    this.#drops = new EarlyDrops(options.kernel);
  }

  /** The controller's view, from its stream. */
  viewed(egress: NodeEgress | null): void {
    const gone = ownedAddresses(this.#egress).difference(ownedAddresses(egress));
    this.#egress = egress;
    if (gone.size > 0) this.#drops.begin(gone);
    this.#start();
    this.#sendView();
  }

  /** These rules are in force. */
  enforced(egress: NodeEgress | null): void {
    this.#inForce = egress;
    this.#sendGuarded();
  }

  /**
   * @param unready why this node is not ready, by gateway
   * @param unreachable gateway nodes that do not answer through the tunnel
   */
  health(unready: ReadonlyMap<string, string>, unreachable: readonly string[]): void {
    this.#health = { kind: 'health', unready, unreachable };
    this.#start();
    this.#send(this.#health);
  }

  /** Drops everything, for good, before the rules are removed. */
  async release(): Promise<void> {
    this.#inForce = null;
    if (this.#worker === null) return await this.#dropFound();
    await this.#end('release');
  }

  /** Live addresses stay, as long as the controller grants to a process that starts again. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelRestart();
    if (this.#worker !== null) await this.#end('stop');
    this.#cancelRefresh();
    await this.#worker?.terminate();
    this.#worker = null;
  }

  #start(): void {
    if (this.#worker !== null || this.#isClosed || this.#egress === null) return;
    const { owned, candidacies } = this.#egress;
    if (owned.length + candidacies.length + this.#health.unreachable.length === 0) {
      if (!this.#isSwept) void this.#dropFound();
      return;
    }
    const { node, boot, url, tokenFile, userAgent, authorities, log } = this.#options;
    const workerData: LeaseThreadData = { node, boot, url, tokenFile, userAgent, origin: authorities.origin };
    const worker = new Worker(siblingModule(import.meta, 'lease-worker'), { workerData });
    this.#worker = worker;
    worker.on('message', (message: FromLeaseThread) => this.#receive(message, worker));
    worker.on('error', (error) => {
      log.error('the thread of leases failed', { stage: 'egress', error: error.message });
    });
    worker.on('exit', () => this.#exited(worker));
    this.#refresh();
    void this.#read(worker);
    this.#send(this.#health);
    this.#sendView();
  }

  #exited(worker: Worker): void {
    if (this.#worker !== worker) return;
    this.#worker = null;
    this.#cancelRefresh();
    this.#ended();
    if (!this.#isClosed) this.#cancelRestart = this.#options.clock.after(RESTART, () => this.#start());
  }

  /** Drops addresses of an earlier process, where nothing is this node's any more. */
  async #dropFound(): Promise<void> {
    const { kernel, log } = this.#options;
    this.#isSwept = true;
    try {
      const found = await kernel.read();
      if (found.length > 0) await kernel.drop(found.map(({ address }) => address));
    } catch (error) {
      log.error('cannot drop floating addresses', { stage: 'egress', error: (error as Error).message });
    }
  }

  #sendView(): void {
    const { owned = [], candidacies = [] } = this.#egress ?? {};
    // Before the view: an address of both is guarded when it is taken.
    this.#sendGuarded();
    this.#send({ kind: 'viewed', view: { owned, candidacies } });
  }

  #sendGuarded(): void {
    const floating = this.#inForce?.floating;
    if (floating === undefined) return;
    const owned = [...ownedAddresses(this.#egress)];
    const addresses = new Set(owned.filter((address) => hasAddress(floating, address)));
    this.#send({ kind: 'enforced', guarded: addresses });
  }

  /** To this thread, as long as it runs; absent: to the one that runs. */
  #send(message: ToLeaseThread, worker = this.#worker): void {
    if (worker === this.#worker) worker?.postMessage(message);
  }

  #refresh(): void {
    const { authorities, addresses, replicas, clock, log } = this.#options;
    this.#cancelRefresh();
    this.#cancelRefresh = clock.after(REFRESH, () => this.#refresh());
    authorities.read().then(
      (text) =>
        this.#send({ kind: 'access', authorities: text, addresses: addresses(), replicas: replicas() }),
      (error: Error) => log.debug('no authorities for leases', { stage: 'egress', error: error.message }),
    );
  }

  #receive(message: FromLeaseThread, worker: Worker): void {
    const { kernel, clock, authorities, log, counted } = this.#options;
    switch (message.kind) {
      case 'take':
      case 'drop':
        void this.#call(message, worker);
        break;
      case 'renewed': {
        const offset = clock.now() - monotonicClock.now();
        kernel.renewed(message.renewals.map(({ address, until }) => ({ address, until: until + offset })));
        break;
      }
      case 'refused':
        authorities.refused();
        this.#refresh();
        break;
      case 'log':
        log[message.level](message.message, { stage: 'egress', ...message.fields });
        break;
      case 'counts':
        counted(message.counts);
        break;
      case 'released':
      case 'stopped':
        this.#ended();
    }
  }

  /** Reads the addresses that are alive of an earlier process, for the thread's first state. */
  async #read(worker: Worker): Promise<void> {
    const { kernel, clock, log } = this.#options;
    try {
      const found = await kernel.read();
      const now = monotonicClock.now();
      const alive = new Map(found.map(({ address, milliseconds }) => [address, now + milliseconds]));
      this.#send({ kind: 'read', alive }, worker);
    } catch (error) {
      const { message } = error as Error;
      const text = 'cannot read floating addresses from the kernel; trying again';
      log.error(text, { stage: 'egress', error: message });
      clock.after(READ_RETRY, () => {
        if (this.#worker === worker && !this.#isClosed) void this.#read(worker);
      });
    }
  }

  /** The result of a call is an event of the thread that asked for it, and of no later one. */
  async #call(call: KernelCall, worker: Worker): Promise<void> {
    const { clock } = this.#options;
    const { key } = call;
    try {
      if (call.kind === 'drop') {
        await this.#drops.drop(call.addresses);
        this.#send({ kind: 'dropped', key }, worker);
        return;
      }
      const until = (): number => call.until - monotonicClock.now() + clock.now();
      this.#send({ kind: 'taken', key, conflicts: await this.#drops.assign(call.addresses, until) }, worker);
    } catch (error) {
      this.#send({ kind: 'failed', key, error: (error as Error).message }, worker);
    }
  }

  #end(kind: 'release' | 'stop'): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#options.clock.after(LONGEST_END, () => this.#ended());
      this.#ended = () => {
        cancel();
        this.#ended = () => {};
        resolve();
      };
      this.#send({ kind });
    });
  }
}

function ownedAddresses(egress: NodeEgress | null): Set<string> {
  return new Set(egress?.owned.flatMap(({ addresses }) => addresses) ?? []);
}

/**
 * The calls of the lease thread, with drops that began before it asked for them: the main thread
 * sees a view first, and is about to render what it changes.
 */
export class EarlyDrops {
  readonly #kernel: Pick<FloatingKernel, 'assign' | 'drop'>;
  /** By address, until the thread asks; false: it failed. */
  readonly #begun = new Map<string, Promise<boolean>>();

  constructor(kernel: Pick<FloatingKernel, 'assign' | 'drop'>) {
    this.#kernel = kernel;
  }

  begin(addresses: ReadonlySet<string>): void {
    const dropped = this.#kernel.drop([...addresses]).then(
      () => true,
      () => false,
    );
    for (const address of addresses) this.#begun.set(address, dropped);
  }

  async drop(addresses: readonly string[]): Promise<void> {
    const begun = addresses.map((address) => this.#begun.get(address) ?? false);
    this.#forget(addresses);
    if (!(await Promise.all(begun)).every(Boolean)) await this.#kernel.drop(addresses);
  }

  async assign(addresses: readonly OwnedAddress[], until: () => number): Promise<readonly AddressConflict[]> {
    const names = addresses.map(({ address }) => address);
    await Promise.all(names.map((name) => this.#begun.get(name)));
    this.#forget(names);
    try {
      return await this.#kernel.assign(addresses, until());
    } finally {
      // One that began meanwhile may have been over before the kernel had the addresses.
      this.#forget(names);
    }
  }

  #forget(addresses: readonly string[]): void {
    for (const address of addresses) this.#begun.delete(address);
  }
}
