import { html, nothing, type TemplateResult } from 'lit';
import type { Asked } from '../../apis/console-documents.ts';
import { countText } from './texts.ts';

/** Failures that are named. */
const MOST_NAMED = 5;

/** Which nodes a document is made of: nobody may take the answers of some for those of all. */
export function askedText({ nodes, failed, notAsked }: Asked): TemplateResult {
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
