import { readFile } from 'node:fs/promises';
import type { WallClock } from '../../../lib/process/clock.ts';
import { type CertificateAndKey, checkPair } from './issue.ts';
import type { CertificateEvents, CertificateSource } from './keeper.ts';

interface CertificateFilesOptions {
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
export class CertificateFiles implements CertificateSource {
  readonly #options: CertificateFilesOptions;
  #held: CertificateAndKey | null = null;
  #trusted: string | null = null;
  #told: string | null = null;
  #cancel = (): void => {};
  #isClosed = false;
  #looking: Promise<void> = Promise.resolve();

  constructor(options: CertificateFilesOptions) {
    this.#options = options;
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
    const [certificate, key] = await Promise.all([
      readText(this.#options.certFile),
      readText(this.#options.keyFile),
    ]);
    const pair = { certificate, key };
    checkPair(pair, { certificate: this.#options.certFile, key: this.#options.keyFile });
    return pair;
  }

  async #readTrusted(): Promise<void> {
    if (this.#options.caFile === undefined) return;
    const text = await readText(this.#options.caFile);
    if (!text.includes('-----BEGIN CERTIFICATE-----'))
      throw new Error(`${this.#options.caFile}: no certificate in PEM`);
    if (text === this.#trusted) return;
    this.#trusted = text;
    if (!this.#isClosed) this.#options.trust(text);
  }

  async #readFiles(): Promise<void> {
    try {
      await this.#readTrusted();
      const now = await this.#read();
      this.#told = null;
      if (now.certificate === this.#held?.certificate && now.key === this.#held.key) return;
      this.#held = now;
      if (!this.#isClosed) this.#options.events.changed(now);
    } catch (error) {
      const { message } = error as Error;
      if (message !== this.#told && !this.#isClosed) this.#options.events.failed(error as Error);
      this.#told = message;
    }
  }

  #readLater(): void {
    if (this.#isClosed) return;
    this.#cancel = this.#options.clock.after(LOOK, () => {
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
