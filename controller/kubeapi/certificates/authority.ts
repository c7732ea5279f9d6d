import { X509Certificate } from 'node:crypto';
import { AUTHORITY_LIFE, BACKDATED, type CertificateAndKey } from './issue.ts';

/** A CA and its rotation. */
export interface Authority {
  /** The CA that signs. */
  readonly current: CertificateAndKey;
  /** The next CA: trusted already, and signs once all clients have it. */
  readonly next: CertificateAndKey | null;
  /** Former CA certificates, trusted until they expire. */
  readonly previous: readonly string[];
}

/** The time for which the next CA is published before it signs (milliseconds). */
export const OVERLAP = 7 * 86_400_000;

/**
 * Advances the CA to its state at `now`; returns the same object if nothing changes. `make` makes a
 * new CA.
 */
export async function advanceAuthority(
  authority: Authority | null,
  now: Date,
  make: (now: Date) => Promise<CertificateAndKey>,
): Promise<Authority> {
  // A start in the future means that it was made by a clock that was ahead: clients with a correct
  // clock would reject it until then.
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

/** All CA certificates that clients must trust, oldest first, PEM. */
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
