import { readFile } from 'node:fs/promises';
import type { WallClock } from '../../../lib/process/clock.ts';
import { checkPair } from './check-pair.ts';
import type { CertificateAndKey } from './issue.ts';
import type { CertificateEvents, CertificateSource } from './keeper.ts';

export interface CertificateFilesParts {
  readonly certFile: string;
  readonly keyFile: string;
  /** The certificates (PEM) of the authorities that the certificate may be signed by; absent: callers know them some other way. */
  readonly caFile?: string | undefined;
  /** Told the content of `caFile`, at first and whenever it is another. */
  readonly trust: (certificates: string) => void;
  readonly clock: WallClock;
  readonly events: CertificateEvents;
}

/** Milliseconds. A Secret's files are links that are changed in one go, which watching sees differently on every file system; reading doesn't. */
const LOOK = 10_000;

/**
 * A certificate and its key in two files, read again every ten seconds. What is no pair (one of the two is written already, the other not yet) is not
 * taken; that is told once. The first reading must succeed.
 */
export function certificateFiles({
  certFile,
  keyFile,
  caFile,
  trust,
  clock,
  events,
}: CertificateFilesParts): CertificateSource {
  let held: CertificateAndKey | null = null;
  let trusted: string | null = null;
  let told: string | null = null;
  let cancel = (): void => {};
  let isClosed = false;
  let looking: Promise<void> = Promise.resolve();

  async function read(): Promise<CertificateAndKey> {
    const [certificate, key] = await Promise.all([readText(certFile), readText(keyFile)]);
    const pair = { certificate, key };
    checkPair(pair, { certificate: certFile, key: keyFile });
    return pair;
  }

  async function readTrusted(): Promise<void> {
    if (caFile === undefined) return;
    const text = await readText(caFile);
    if (!text.includes('-----BEGIN CERTIFICATE-----'))
      throw new Error(`${caFile} holds no certificate (PEM)`);
    if (text === trusted) return;
    trusted = text;
    if (!isClosed) trust(text);
  }

  async function look(): Promise<void> {
    try {
      await readTrusted();
      const now = await read();
      told = null;
      if (now.certificate === held?.certificate && now.key === held.key) return;
      held = now;
      if (!isClosed) events.changed(now);
    } catch (error) {
      const { message } = error as Error;
      if (message !== told && !isClosed) events.failed(error as Error);
      told = message;
    }
  }

  function lookLater(): void {
    if (isClosed) return;
    cancel = clock.after(LOOK, () => {
      looking = look().finally(lookLater);
    });
  }

  return {
    async start() {
      await readTrusted();
      held = await read();
      lookLater();
      return held;
    },
    // Nobody else changes what is read here.
    look() {},
    async close() {
      isClosed = true;
      cancel();
      await looking;
    },
  };
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new Error(`${file}: ${(cause as Error).message}`, { cause });
  }
}
