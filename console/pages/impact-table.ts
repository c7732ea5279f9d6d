import { html, nothing, type TemplateResult } from 'lit';
import type { PreviewImpact } from '../../apis/console-documents.ts';
import { askedText } from '../view/asked-text.ts';
import { countText, namesText, numberText, serviceText, timeText } from '../view/texts.ts';

/** Flows of the last days that a change would deny. */
export function impactTable(impact: PreviewImpact): TemplateResult {
  if ('reason' in impact)
    return html`<h2>Impact</h2>
      <p class="muted">Not known: ${impact.reason}</p>`;
  const { asked, newlyDenied, isCut } = impact;
  return html`
    <h2 id="impact">Impact on flows that nodes have seen</h2>
    ${askedText(asked)}
    ${
      newlyDenied.length === 0
        ? html`<p>None of the flows that these nodes know would be denied.</p>`
        : html`<div class="scroll">
          <table aria-labelledby="impact">
            <thead>
              <tr>
                <th scope="col">Newly denied peer</th>
                <th scope="col">Direction</th>
                <th scope="col">Service</th>
                <th scope="col" class="number">Connections</th>
                <th scope="col" class="number">Live</th>
                <th scope="col">Last seen</th>
                <th scope="col">By rule</th>
                <th scope="col">Nodes</th>
              </tr>
            </thead>
            <tbody>
              ${newlyDenied.map(
                (kind) =>
                  html`<tr class="denied">
                    <th scope="row" class="name">${kind.peer}</th>
                    <td class="short">${kind.direction}</td>
                    <td class="short">${serviceText(kind)}</td>
                    <td class="number">${numberText(kind.connections)}</td>
                    <td class="number">${kind.live === null ? '–' : numberText(kind.live)}</td>
                    <td class="short">${timeText(kind.lastSeen)}</td>
                    <td class="name">${kind.rule === null ? 'no rule' : `${kind.rule.policy}/${kind.rule.rule}`}</td>
                    <td>${namesText(kind.nodes)}</td>
                  </tr>`,
              )}
            </tbody>
          </table>
        </div>`
    }
    ${isCut ? html`<p class="muted">There are more than these ${countText(newlyDenied.length, 'kind')}.</p>` : nothing}
  `;
}
