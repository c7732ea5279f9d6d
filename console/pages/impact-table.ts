import { html, nothing, type TemplateResult } from 'lit';
import type { PreviewImpact } from '../../apis/console-documents.ts';
import { dataTable } from '../view/data-table.ts';
import { askedText } from '../view/failure.ts';
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
        : dataTable({
            name: { id: 'impact' },
            rows: newlyDenied,
            rowStyle: () => 'denied',
            columns: [
              { title: 'Newly denied peer', style: 'name', cell: ({ peer }) => peer },
              { title: 'Direction', style: 'short', cell: ({ direction }) => direction },
              { title: 'Service', style: 'short', cell: serviceText },
              { title: 'Connections', style: 'number', cell: ({ connections }) => numberText(connections) },
              {
                title: 'Live',
                style: 'number',
                cell: ({ live }) => (live === null ? '–' : numberText(live)),
              },
              { title: 'Last seen', style: 'short', cell: ({ lastSeen }) => timeText(lastSeen) },
              {
                title: 'By rule',
                style: 'name',
                cell: ({ rule }) => (rule === null ? 'no rule' : `${rule.policy}/${rule.rule}`),
              },
              { title: 'Nodes', cell: ({ nodes }) => namesText(nodes) },
            ],
          })
    }
    ${isCut ? html`<p class="muted">There are more than these ${countText(newlyDenied.length, 'kind')}.</p>` : nothing}
  `;
}
