import { BackOff } from '../../../lib/process/back-off.ts';
import { type CancellableSleep, cancellableSleep } from '../../../lib/process/cancellable-sleep.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { KubeApi } from '../kube-api.ts';
import { publishBundle } from './bundle.ts';

export interface KeptBundleOptions {
  readonly request: KubeApi;
  /** The ConfigMap. */
  readonly namespace: string;
  readonly name: string;
  readonly clock: Clock;
  /** Called after a failure; it is tried again. */
  readonly failed: (error: Error) => void;
}

/** Interval between checks (milliseconds): somebody may have deleted the ConfigMap. */
const LOOK = 600_000;
const FIRST_RETRY = 1_000;

/**
 * Keeps the CA certificates of a third party in the ConfigMap that agents read, so that no agent
 * needs the Secret, which has the server's key as well.
 */
export class KeptBundle {
  readonly #options: KeptBundleOptions;
  readonly #pause: CancellableSleep;
  #certificates: string | null = null;
  #isClosed = false;
  #running: Promise<void> | null = null;

  constructor(options: KeptBundleOptions) {
    this.#options = options;
    this.#pause = cancellableSleep(options.clock.after);
  }

  /** Publishes these certificates (PEM) from now on. */
  take(certificates: string): void {
    if (this.#isClosed) return;
    this.#certificates = certificates;
    this.#pause.wake();
    this.#running ??= this.#run();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#pause.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { request, namespace, name, failed } = this.#options;
    const retries = new BackOff({ first: FIRST_RETRY, longest: LOOK });
    while (!this.#isClosed && this.#certificates !== null) {
      const certificates = this.#certificates;
      let wait = LOOK;
      try {
        await publishBundle(request, { namespace, name }, certificates);
        retries.reset();
      } catch (error) {
        failed(error as Error);
        wait = retries.next();
      }
      if (!this.#isClosed && this.#certificates === certificates) await this.#pause.wait(wait);
    }
  }
}
