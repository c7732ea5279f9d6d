import { html, type ReactiveController, type ReactiveControllerHost, type TemplateResult } from 'lit';
import type { ApiError } from '../data/api.ts';
import { failureBlock, failureLine } from './failure.ts';

export interface LoadOptions<T> {
  /** Rejects with an ApiError. */
  readonly load: (signal: AbortSignal) => Promise<T>;
  /** Milliseconds between two readings while the page is seen; absent: it is read once. */
  readonly every?: number;
}

/**
 * A document for a page: read when the page is shown, again and again if wanted, and not while the
 * browser hides the page. Keeps the last one also when a later reading fails, and says so.
 */
export class LoadedDocument<T> implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  readonly #options: LoadOptions<T>;
  #value: T | null = null;
  #error: ApiError | null = null;
  #reading = new AbortController();
  #timer: number | undefined;

  constructor(host: ReactiveControllerHost, options: LoadOptions<T>) {
    this.#host = host;
    this.#options = options;
    host.addController(this);
  }

  get value(): T | null {
    return this.#value;
  }

  hostConnected(): void {
    document.addEventListener('visibilitychange', this.#onVisible);
    this.reload();
  }

  hostDisconnected(): void {
    document.removeEventListener('visibilitychange', this.#onVisible);
    this.#end();
  }

  readonly #onVisible = (): void => {
    if (this.#options.every === undefined) return;
    if (document.hidden) this.#end();
    else this.reload();
  };

  /** Reads it now; an earlier reading is ended. */
  readonly reload = (): void => {
    this.#end();
    this.#reading = new AbortController();
    void this.#read(this.#reading.signal);
  };

  #end(): void {
    this.#reading.abort();
    clearTimeout(this.#timer);
  }

  async #read(signal: AbortSignal): Promise<void> {
    try {
      const value = await this.#options.load(signal);
      if (signal.aborted) return;
      this.#value = value;
      this.#error = null;
    } catch (error) {
      if (signal.aborted) return;
      this.#error = error as ApiError;
    }
    this.#host.requestUpdate();
    if (this.#options.every !== undefined) this.#timer = window.setTimeout(this.reload, this.#options.every);
  }

  /** The document by a template; before the first one, and where there is none, what there is. */
  render(template: (value: T) => TemplateResult): TemplateResult {
    if (this.#value !== null)
      return html`${this.#error === null ? '' : failureLine(this.#error, this.reload)} ${template(this.#value)}`;
    if (this.#error !== null) return failureBlock(this.#error, this.reload);
    return html`<p class="muted" role="status">Loading…</p>`;
  }
}
