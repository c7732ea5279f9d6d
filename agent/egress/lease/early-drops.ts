import type { OwnedAddress } from '../../../apis/egress/node-egress.ts';
import type { AddressConflict, FloatingKernel } from '../floating-kernel.ts';

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
