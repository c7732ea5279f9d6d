import { X509Certificate } from 'node:crypto';
import { BackOff } from '../../../lib/process/back-off.ts';
import {
  type CancellableSleep,
  type Clock,
  cancellableSleep,
  type WallClock,
} from '../../../lib/process/clock.ts';
import type { KubeApi } from '../kube-api.ts';
import { type Authority, authorityInSecret, publishBundle, trustedCertificates } from './authority.ts';
import { type CertificateAndKey, issueServing, SERVING_LIFE } from './issue.ts';

/** The source of a server's certificate. */
export interface CertificateSource {
  /**
   * Resolves with the first certificate; later ones are passed to `changed`. Rejects once closed.
   */
  start(): Promise<CertificateAndKey>;
  /** Checks now, not at the next interval: an object that holds the CA was changed. */
  checkNow(): void;
  close(): Promise<void>;
}

export interface CertificateEvents {
  /** Called with each new certificate, for `setSecureContext` of running servers. */
  changed(certificate: CertificateAndKey): void;
  /** Called after a failure: the current certificate stays, and the source retries. */
  failed(error: Error): void;
}

interface KeeperOptions {
  readonly request: KubeApi;
  readonly namespace: string;
  /** The name of the Secret and of the ConfigMap. */
  readonly name: string;
  /** The names of the servers; the first is the common name. */
  readonly names: readonly string[];
  /**
   * Passes the CA certificates (PEM) on to the API server (for webhooks, the APIService). Called at
   * every check, with the key of the CA (PEM) that all replicas have.
   */
  readonly trust: (certificates: string, key: string) => Promise<unknown>;
  readonly clock: WallClock;
  readonly events: CertificateEvents;
}

/** Maintains a CA of the controllers, and everything that depends on it. */
export class CertificateKeeper implements CertificateSource {
  readonly #options: KeeperOptions;
  #held: { readonly serving: CertificateAndKey; readonly issuer: string } | null = null;
  readonly #checks: RepeatedCheck;
  #first = (): void => {};

  constructor(options: KeeperOptions) {
    const { clock, events } = options;
    this.#options = options;
    this.#checks = new RepeatedCheck({
      check: () => this.#check(),
      failed: (error) => events.failed(error),
      clock,
    });
  }

  start(): Promise<CertificateAndKey> {
    return new Promise((resolve, reject) => {
      this.#first = () => {
        if (this.#held !== null) resolve(this.#held.serving);
      };
      this.#checks.start().finally(() => reject(new Error('closed before a certificate was available')));
    });
  }

  checkNow(): void {
    this.#checks.checkNow();
  }

  close(): Promise<void> {
    return this.#checks.close();
  }

  /** Serves with the certificate that it has, whatever fails after that. */
  async #check(): Promise<void> {
    try {
      await this.#advance();
    } finally {
      this.#first();
    }
  }

  async #advance(): Promise<void> {
    const { request, namespace, name, trust, clock } = this.#options;
    const place = { namespace, name };
    const authority = await authorityInSecret(request, place, clock.date());
    const trusted = trustedCertificates(authority);
    // All clients must have the CA before the server uses a certificate that it signed.
    await publishBundle(request, place, trusted);
    await this.#serve(authority);
    await trust(trusted, authority.current.key);
  }

  async #serve({ current }: Authority): Promise<void> {
    const { names, clock, events } = this.#options;
    const issuer = current.certificate;
    const held = this.#held;
    if (held !== null && held.issuer === issuer && !isDue(held.serving, issuer, clock.date())) return;
    const serving = await issueServing(current, names, clock.date());
    this.#held = { issuer, serving };
    if (held !== null) events.changed(serving);
  }
}

/**
 * Whether two thirds of its life are over, or it is not valid yet because the clock was ahead when
 * it was made. If it expires with its CA, no earlier certificate is issued: the next CA signs long
 * before that.
 */
function isDue({ certificate }: CertificateAndKey, issuer: string, now: Date): boolean {
  const { validFromDate, validToDate } = new X509Certificate(certificate);
  if (validFromDate > now) return true;
  const end = validToDate.getTime();
  const isCutShort = end === new X509Certificate(issuer).validToDate.getTime();
  return now.getTime() >= end - (isCutShort ? 0 : SERVING_LIFE / 3);
}

interface RepeatedCheckOptions {
  /** Writes what third parties may have changed or deleted. */
  readonly check: () => Promise<unknown>;
  /** Called after a failure; it is tried again. */
  readonly failed: (error: Error) => void;
  readonly clock: Clock;
}

/** Interval between checks (milliseconds): another replica may have advanced the CA. */
const LOOK = 600_000;
/**
 * The least time between two checks (milliseconds), however often third parties write the same
 * fields.
 */
const LEAST = 1_000;
const FIRST_RETRY = 1_000;

/** Repeats a check every ten minutes, and when something has changed. */
export class RepeatedCheck {
  readonly #options: RepeatedCheckOptions;
  readonly #pause: CancellableSleep;
  #isClosed = false;
  #checkedAt = Number.NEGATIVE_INFINITY;
  /** A check was requested since the last one began. */
  #isAsked = false;
  #cancelSoon = (): void => {};
  #running: Promise<void> | null = null;

  constructor(options: RepeatedCheckOptions) {
    this.#options = options;
    this.#pause = cancellableSleep(options.clock.after);
  }

  /** Makes the first check at once; resolves when it is closed. */
  start(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    this.#running ??= this.#run();
    return this.#running;
  }

  /** Checks as soon as it may, once it was started. */
  checkNow(): void {
    if (this.#isClosed || this.#running === null) return;
    const { clock } = this.#options;
    this.#isAsked = true;
    this.#cancelSoon();
    this.#cancelSoon = clock.after(Math.max(0, this.#checkedAt + LEAST - clock.now()), this.#pause.wake);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelSoon();
    this.#pause.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { check, failed, clock } = this.#options;
    const retries = new BackOff({ first: FIRST_RETRY, longest: LOOK });
    while (!this.#isClosed) {
      let wait = LOOK;
      this.#isAsked = false;
      this.#checkedAt = clock.now();
      try {
        await check();
        retries.reset();
      } catch (error) {
        failed(error as Error);
        wait = retries.next();
      }
      if (!this.#isClosed) await this.#pause.wait(this.#isAsked ? LEAST : wait);
    }
  }
}
