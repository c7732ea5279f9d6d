import { X509Certificate } from 'node:crypto';
import type { WallClock } from '../../../lib/process/clock.ts';
import type { KubeApi } from '../kube-api.ts';
import { type Authority, trustedCertificates } from './authority.ts';
import { authorityInSecret } from './authority-secret.ts';
import { publishBundle } from './bundle.ts';
import { type CertificateAndKey, issueServing, SERVING_LIFE } from './issue.ts';
import { RepeatedCheck } from './repeated-check.ts';

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
export function certificateKeeper(options: KeeperOptions): CertificateSource {
  return new AuthorityKeeper(options);
}

class AuthorityKeeper implements CertificateSource {
  readonly #request: KubeApi;
  readonly #namespace: string;
  readonly #name: string;
  readonly #names: readonly string[];
  readonly #trust: KeeperOptions['trust'];
  readonly #clock: WallClock;
  readonly #events: CertificateEvents;
  #held: { readonly serving: CertificateAndKey; readonly issuer: string } | null = null;
  readonly #checks: RepeatedCheck;
  #first = (): void => {};

  constructor(options: KeeperOptions) {
    const { request, namespace, name, names, trust, clock, events } = options;
    this.#request = request;
    this.#namespace = namespace;
    this.#name = name;
    this.#names = names;
    this.#trust = trust;
    this.#clock = clock;
    this.#events = events;
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
    const authority = await authorityInSecret(
      this.#request,
      { namespace: this.#namespace, name: this.#name },
      this.#clock.date(),
    );
    const trusted = trustedCertificates(authority);
    // All clients must have the CA before the server uses a certificate that it signed.
    await publishBundle(this.#request, { namespace: this.#namespace, name: this.#name }, trusted);
    await this.#serve(authority);
    await this.#trust(trusted, authority.current.key);
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
