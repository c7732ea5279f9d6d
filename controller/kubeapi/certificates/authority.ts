import { X509Certificate } from 'node:crypto';
import { AUTHORITY_LIFE, BACKDATED, type CertificateAndKey } from './issue.ts';

/** A CA over time. */
export interface Authority {
  /** It signs. */
  readonly current: CertificateAndKey;
  /** It is trusted already, and signs when everybody has heard of it. */
  readonly next: CertificateAndKey | null;
  /** Certificates that are trusted until they end. */
  readonly previous: readonly string[];
}

/** So long the next CA is published before it signs. */
export const OVERLAP = 7 * 86_400_000;

/** What the CA should be now; the same object where it is that already. `make` makes a new one. */
export async function advanceAuthority(
  authority: Authority | null,
  now: Date,
  make: (now: Date) => Promise<CertificateAndKey>,
): Promise<Authority> {
  // Made by a clock that was ahead: nobody whose clock is right would believe it for as long as
  // that.
  if (authority === null || startOf(authority.current.certificate) > now.getTime())
    return { current: await make(now), next: null, previous: [] };
  const previous = authority.previous.filter((certificate) => endOf(certificate) > now.getTime());
  let { current, next } = authority;
  if (next !== null && startOf(next.certificate) > now.getTime()) next = null;
  if (next === null && now.getTime() >= endOf(current.certificate) - AUTHORITY_LIFE / 3)
    next = await make(now);
  const isNextKnown = next !== null && now.getTime() >= startOf(next.certificate) + BACKDATED + OVERLAP;
  const isOver = endOf(current.certificate) <= now.getTime();
  if (next !== null && (isNextKnown || isOver)) {
    if (!isOver) previous.push(current.certificate);
    [current, next] = [next, null];
  }
  const isSame =
    current === authority.current && next === authority.next && previous.length === authority.previous.length;
  return isSame ? authority : { current, next, previous };
}

/** All that clients trust, oldest first, PEM. */
export function trustedCertificates({ current, next, previous }: Authority): string {
  const certificates = [...previous, current.certificate, ...(next === null ? [] : [next.certificate])];
  return certificates.map((certificate) => `${certificate.trim()}\n`).join('');
}

function startOf(certificate: string): number {
  return new X509Certificate(certificate).validFromDate.getTime();
}

function endOf(certificate: string): number {
  return new X509Certificate(certificate).validToDate.getTime();
}
