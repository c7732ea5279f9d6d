import type { AskedNodes } from '../../apis/console-documents.ts';
import type { ApiError } from '../data/api.ts';
import './data-table.ts';
import {
  html,
  nothing,
  type ReactiveController,
  type ReactiveControllerHost,
  type TemplateResult,
} from 'lit';
import { countText } from './texts.ts';

interface LoadOptions<T> {
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

const BINDING = 'kubectl create clusterrolebinding nodewall-view --clusterrole=nodewall-view --user=THE-USER';

/** In place of what could not be read: why, and the way out. */
export function failureBlock(error: ApiError, retry: () => void): TemplateResult {
  return html`
    <div class="failure" role="alert">
      <h2>${titleOf(error)}</h2>
      <p>${error.message}</p>
      ${
        error.status === 403
          ? html`<p>ClusterRole nodewall-view has this right. Who may bind it runs:</p>
            <copy-line .line=${BINDING}></copy-line>`
          : html`<p>${wayOut(error)}</p>`
      }
      <button @click=${retry}>Try again</button>
    </div>
  `;
}

/** Above what was read before. */
function failureLine(error: ApiError, retry: () => void): TemplateResult {
  return html`<p class="stale" role="alert">
    Not up to date: ${error.message}. <button @click=${retry}>Try again</button>
  </p>`;
}

function titleOf({ status }: ApiError): string {
  if (status === 403) return 'You may not see this';
  if (status === 401) return 'Not logged in';
  if (status === 404) return 'Not there';
  return status === 0 ? 'No answer' : 'It failed';
}

function wayOut({ status }: ApiError): string {
  switch (status) {
    case 0:
      return 'Is the command that serves this page (nodewall console, kubectl proxy) still running?';
    case 401:
      return 'The credentials of the command that serves this page are no longer valid: log in, and start it again.';
    case 404:
      return 'The controllers may be of a version without this page.';
    case 429:
      return 'Too many requests; wait a few seconds.';
    case 503:
      return 'No controller answers now. kubectl nodewall check says what is wrong.';
    default:
      return 'kubectl nodewall check says whether nodewall runs as it should.';
  }
}

/** Failures that are named. */
const MOST_NAMED = 5;

/** Which nodes a document is made of: nobody may take the answers of some for those of all. */
export function askedText({ nodes, failed, notAsked }: AskedNodes): TemplateResult {
  return html`
    <p class="muted">
      ${countText(nodes.length - failed.length, 'node')}
      answered.${notAsked > 0 ? html` <span class="warn">${countText(notAsked, 'node')} not asked.</span>` : nothing}
    </p>
    ${
      failed.length === 0
        ? nothing
        : html`<ul class="failed">
          ${failed
            .slice(0, MOST_NAMED)
            .map(({ node, error }) => html`<li><b>${node}</b> did not answer: ${error}</li>`)}
          ${failed.length > MOST_NAMED ? html`<li>${countText(failed.length - MOST_NAMED, 'more node')}</li>` : nothing}
        </ul>`
    }
  `;
}
