import { X509Certificate } from 'node:crypto';
import { BackOff } from '../../../lib/process/back-off.ts';
import type { WallClock } from '../../../lib/process/clock.ts';
import { waiter } from '../../../lib/process/waiter.ts';
import type { KubeApi } from '../kube-api.ts';
import { type Authority, trustedCertificates } from './authority.ts';
import { authorityInSecret } from './authority-secret.ts';
import { publishBundle } from './bundle.ts';
import { type CertificateAndKey, issueServing, SERVING_LIFE } from './issue.ts';

/** Where servers get their certificate from. */
export interface CertificateSource {
  /** Settles with the first one; those that come later are given to `changed`. Rejects once closed. */
  start(): Promise<CertificateAndKey>;
  /** Somebody changed an object that holds the CA: it is looked at now, not at the next periodic look. */
  look(): void;
  close(): Promise<void>;
}

export interface CertificateEvents {
  /** Another than before: for `setSecureContext` of running servers. */
  changed(certificate: CertificateAndKey): void;
  /** What there is stays; the next try comes by itself. */
  failed(error: Error): void;
}

export interface KeeperParts {
  readonly request: KubeApi;
  readonly namespace: string;
  /** Of the Secret and the ConfigMap. */
  readonly name: string;
  /** What the servers are called by; the first is the common name. */
  readonly names: readonly string[];
  /** Tells the API server's own callers (webhooks, the APIService) whom to trust: CA certificates, PEM. Called at every look. */
  readonly trust: (certificates: string) => Promise<unknown>;
  readonly clock: WallClock;
  readonly events: CertificateEvents;
}

/** Another replica may have advanced the CA: so often a look is taken. */
const LOOK = 600_000;
/** No look follows another sooner, whoever else writes the same fields. */
const LEAST = 1_000;
const FIRST_RETRY = 1_000;

/** A CA of our own and what hangs on it, kept up. */
export function certificateKeeper(parts: KeeperParts): CertificateSource {
  const { request, namespace, name, names, trust, clock, events } = parts;
  let held: { readonly serving: CertificateAndKey; readonly issuer: string } | null = null;
  let isClosed = false;
  const pause = waiter(clock.after);
  let lookedAt = Number.NEGATIVE_INFINITY;
  /** A look was asked for since the last one began. */
  let isAsked = false;
  let cancelSoon = (): void => {};
  let running: Promise<void> = Promise.resolve();

  async function look(): Promise<void> {
    const authority = await authorityInSecret(request, { namespace, name }, clock.date());
    const trusted = trustedCertificates(authority);
    // First everybody who listens hears whom to trust, then we serve with it.
    await publishBundle(request, { namespace, name }, trusted);
    await serve(authority);
    await trust(trusted);
  }

  async function serve({ current }: Authority): Promise<void> {
    const issuer = current.certificate;
    if (held !== null && held.issuer === issuer && !isDue(held.serving, issuer, clock.date())) return;
    const isFirst = held === null;
    held = { issuer, serving: await issueServing(current, names, clock.date()) };
    if (!isFirst) events.changed(held.serving);
  }

  async function run(first: () => void): Promise<void> {
    const retries = new BackOff({ first: FIRST_RETRY, longest: LOOK });
    while (!isClosed) {
      let wait = LOOK;
      isAsked = false;
      lookedAt = clock.date().getTime();
      try {
        await look();
        retries.reset();
      } catch (error) {
        events.failed(error as Error);
        wait = retries.next();
      }
      if (held !== null) first();
      if (!isClosed) await pause.wait(isAsked ? LEAST : wait);
    }
  }

  return {
    start: () =>
      new Promise((resolve, reject) => {
        running = run(() => {
          if (held !== null) resolve(held.serving);
        }).finally(() => reject(new Error('closed before there was a certificate')));
      }),
    look() {
      if (isClosed) return;
      isAsked = true;
      cancelSoon();
      cancelSoon = clock.after(Math.max(0, lookedAt + LEAST - clock.date().getTime()), pause.wake);
    },
    async close() {
      isClosed = true;
      cancelSoon();
      pause.wake();
      await running;
    },
  };
}

/** Two thirds of its life are over, or it hasn't begun: the clock was ahead when it was made. One that its CA cuts short is not asked for any sooner: the next CA signs long before. */
function isDue({ certificate }: CertificateAndKey, issuer: string, now: Date): boolean {
  const { validFromDate, validToDate } = new X509Certificate(certificate);
  if (validFromDate > now) return true;
  const end = validToDate.getTime();
  const isCutShort = end === new X509Certificate(issuer).validToDate.getTime();
  return now.getTime() >= end - (isCutShort ? 0 : SERVING_LIFE / 3);
}
