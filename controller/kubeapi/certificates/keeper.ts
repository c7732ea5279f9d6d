import { X509Certificate } from 'node:crypto';
import { BackOff } from '../../../lib/process/back-off.ts';
import { type CancellableSleep, cancellableSleep } from '../../../lib/process/cancellable-sleep.ts';
import type { WallClock } from '../../../lib/process/clock.ts';
import type { KubeApi } from '../kube-api.ts';
import { type Authority, trustedCertificates } from './authority.ts';
import { authorityInSecret } from './authority-secret.ts';
import { publishBundle } from './bundle.ts';
import { type CertificateAndKey, issueServing, SERVING_LIFE } from './issue.ts';

/** The source of a server's certificate. */
export interface CertificateSource {
  /**
   * Resolves with the first certificate; later ones are passed to `changed`. Rejects once closed.
   */
  start(): Promise<CertificateAndKey>;
  /** Checks now, not at the next interval: an object that holds the CA was changed. */
  look(): void;
  close(): Promise<void>;
}

export interface CertificateEvents {
  /** Called with each new certificate, for `setSecureContext` of running servers. */
  changed(certificate: CertificateAndKey): void;
  /** Called after a failure: the current certificate stays, and the source retries. */
  failed(error: Error): void;
}

export interface KeeperOptions {
  readonly request: KubeApi;
  readonly namespace: string;
  /** The name of the Secret and of the ConfigMap. */
  readonly name: string;
  /** The names of the servers; the first is the common name. */
  readonly names: readonly string[];
  /**
   * Passes the CA certificates (PEM) on to the API server (for webhooks, the APIService). Called at
   * every check.
   */
  readonly trust: (certificates: string) => Promise<unknown>;
  readonly clock: WallClock;
  readonly events: CertificateEvents;
}

/** Interval between checks (milliseconds): another replica may have advanced the CA. */
const LOOK = 600_000;
/**
 * The least time between two checks (milliseconds), however often third parties write the same
 * fields.
 */
const LEAST = 1_000;
const FIRST_RETRY = 1_000;

/** Maintains a CA of the controllers, and everything that depends on it. */
export function certificateKeeper(options: KeeperOptions): CertificateSource {
  return new AuthorityKeeper(options);
}

class AuthorityKeeper implements CertificateSource {
  readonly #request: KubeApi;
  readonly #namespace: string;
  readonly #name: string;
  readonly #names: readonly string[];
  readonly #trust: (certificates: string) => Promise<unknown>;
  readonly #clock: WallClock;
  readonly #events: CertificateEvents;
  #held: { readonly serving: CertificateAndKey; readonly issuer: string } | null = null;
  #isClosed = false;
  readonly #pause: CancellableSleep;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** A check was requested since the last one began. */
  #isAsked = false;
  #cancelSoon = (): void => {};
  #running: Promise<void> = Promise.resolve();

  constructor(options: KeeperOptions) {
    const { request, namespace, name, names, trust, clock, events } = options;
    this.#request = request;
    this.#namespace = namespace;
    this.#name = name;
    this.#names = names;
    this.#trust = trust;
    this.#clock = clock;
    this.#events = events;
    this.#pause = cancellableSleep(clock.after);
  }

  start(): Promise<CertificateAndKey> {
    return new Promise((resolve, reject) => {
      this.#running = this.#run(() => {
        if (this.#held !== null) resolve(this.#held.serving);
      }).finally(() => reject(new Error('closed before a certificate was available')));
    });
  }

  look(): void {
    if (this.#isClosed) return;
    this.#isAsked = true;
    this.#cancelSoon();
    this.#cancelSoon = this.#clock.after(
      Math.max(0, this.#lookedAt + LEAST - this.#clock.now()),
      this.#pause.wake,
    );
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelSoon();
    this.#pause.wake();
    await this.#running;
  }

  async #look(): Promise<void> {
    const authority = await authorityInSecret(
      this.#request,
      { namespace: this.#namespace, name: this.#name },
      this.#clock.date(),
    );
    const trusted = trustedCertificates(authority);
    // All clients must have the CA before the server uses a certificate that it signed.
    await publishBundle(this.#request, { namespace: this.#namespace, name: this.#name }, trusted);
    await this.#serve(authority);
    await this.#trust(trusted);
  }

  async #serve({ current }: Authority): Promise<void> {
    const issuer = current.certificate;
    if (
      this.#held !== null &&
      this.#held.issuer === issuer &&
      !isDue(this.#held.serving, issuer, this.#clock.date())
    )
      return;
    const isFirst = this.#held === null;
    this.#held = { issuer, serving: await issueServing(current, this.#names, this.#clock.date()) };
    if (!isFirst) this.#events.changed(this.#held.serving);
  }

  async #run(first: () => void): Promise<void> {
    const retries = new BackOff({ first: FIRST_RETRY, longest: LOOK });
    while (!this.#isClosed) {
      let wait = LOOK;
      this.#isAsked = false;
      this.#lookedAt = this.#clock.now();
      try {
        await this.#look();
        retries.reset();
      } catch (error) {
        this.#events.failed(error as Error);
        wait = retries.next();
      }
      if (this.#held !== null) first();
      if (!this.#isClosed) await this.#pause.wait(this.#isAsked ? LEAST : wait);
    }
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
