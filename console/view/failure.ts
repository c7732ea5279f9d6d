import './copy-line.ts';
import { html, nothing, type TemplateResult } from 'lit';
import type { AskedNodes } from '../../apis/console-documents.ts';
import type { ApiError } from '../data/api.ts';
import { countText } from './texts.ts';

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
export function failureLine(error: ApiError, retry: () => void): TemplateResult {
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
            .map(({ node, message }) => html`<li><b>${node}</b> did not answer: ${message}</li>`)}
          ${failed.length > MOST_NAMED ? html`<li>${countText(failed.length - MOST_NAMED, 'more node')}</li>` : nothing}
        </ul>`
    }
  `;
}
