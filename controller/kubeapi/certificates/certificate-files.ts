import { readFile } from 'node:fs/promises';
import type { WallClock } from '../../../lib/process/clock.ts';
import { type CertificateAndKey, checkPair } from './issue.ts';
import type { CertificateEvents, CertificateSource } from './keeper.ts';

export interface CertificateFilesOptions {
  readonly certFile: string;
  readonly keyFile: string;
  /**
   * File with the CA certificates (PEM) that the certificate may be signed by; absent: clients have
   * them from elsewhere.
   */
  readonly caFile?: string | undefined;
  /** Called with the content of `caFile`, at first and after each change. */
  readonly trust: (certificates: string) => void;
  readonly clock: WallClock;
  readonly events: CertificateEvents;
}

/**
 * Poll interval (milliseconds). The files of a Secret are symbolic links that are replaced
 * atomically; watches report this differently on each file system, but reading always works.
 */
const LOOK = 10_000;

/**
 * A certificate and its key from two files, read again every ten seconds. If the two don't match
 * (only one of them has been written yet), they are not used; this is reported once. The first
 * reading must succeed.
 */
export function certificateFiles(options: CertificateFilesOptions): CertificateSource {
  return new FilesSource(options);
}

class FilesSource implements CertificateSource {
  readonly #certFile: string;
  readonly #keyFile: string;
  readonly #caFile: string | undefined;
  readonly #trust: (certificates: string) => void;
  readonly #clock: WallClock;
  readonly #events: CertificateEvents;
  #held: CertificateAndKey | null = null;
  #trusted: string | null = null;
  #told: string | null = null;
  #cancel = (): void => {};
  #isClosed = false;
  #looking: Promise<void> = Promise.resolve();

  constructor({ certFile, keyFile, caFile, trust, clock, events }: CertificateFilesOptions) {
    this.#certFile = certFile;
    this.#keyFile = keyFile;
    this.#caFile = caFile;
    this.#trust = trust;
    this.#clock = clock;
    this.#events = events;
  }

  async start(): Promise<CertificateAndKey> {
    await this.#readTrusted();
    this.#held = await this.#read();
    this.#readLater();
    return this.#held;
  }

  /** Does nothing: the CA is in no object of the API. */
  checkNow(): void {}

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    await this.#looking;
  }

  async #read(): Promise<CertificateAndKey> {
    const [certificate, key] = await Promise.all([readText(this.#certFile), readText(this.#keyFile)]);
    const pair = { certificate, key };
    checkPair(pair, { certificate: this.#certFile, key: this.#keyFile });
    return pair;
  }

  async #readTrusted(): Promise<void> {
    if (this.#caFile === undefined) return;
    const text = await readText(this.#caFile);
    if (!text.includes('-----BEGIN CERTIFICATE-----'))
      throw new Error(`${this.#caFile}: no certificate in PEM`);
    if (text === this.#trusted) return;
    this.#trusted = text;
    if (!this.#isClosed) this.#trust(text);
  }

  async #readFiles(): Promise<void> {
    try {
      await this.#readTrusted();
      const now = await this.#read();
      this.#told = null;
      if (now.certificate === this.#held?.certificate && now.key === this.#held.key) return;
      this.#held = now;
      if (!this.#isClosed) this.#events.changed(now);
    } catch (error) {
      const { message } = error as Error;
      if (message !== this.#told && !this.#isClosed) this.#events.failed(error as Error);
      this.#told = message;
    }
  }

  #readLater(): void {
    if (this.#isClosed) return;
    this.#cancel = this.#clock.after(LOOK, () => {
      this.#looking = this.#readFiles().finally(() => this.#readLater());
    });
  }
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new Error(`${file}: ${(cause as Error).message}`, { cause });
  }
}
