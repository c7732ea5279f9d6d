import { css, html, LitElement, nothing, type TemplateResult } from 'lit';
import type { Lint } from '../../apis/console-documents.ts';
import { type FindingKind, findingText, type NodeFinding } from '../../apis/lint/finding.ts';
import { getDocument } from '../data/api.ts';
import { dataTable } from '../view/data-table.ts';
import { flowLink } from '../view/links.ts';
import { LoadedDocument } from '../view/loaded.ts';
import { BASE_STYLES, CONTROLS, TABLE_STYLES } from '../view/styles.ts';
import { countText, namesText, numberText, timeText } from '../view/texts.ts';

/** A reader's action for each kind. */
const MEANINGS: Readonly<Record<FindingKind, string>> = {
  unreachable: 'Rules before it decide all of its flows.',
  'selects-nothing': 'It matches no flow now.',
  'no-effect': 'Without it every verdict is the same.',
  'partly-shadowed': 'Rules with another verdict decide some of its flows.',
  wider: 'It matches all flows of another rule with the same verdict, and more.',
  failsafe: 'The failsafe list skips it for some flows.',
};

/** The findings of `nodewall lint` on the policies in force. */
export class LintPage extends LitElement {
  static override styles = [
    BASE_STYLES,
    TABLE_STYLES,
    CONTROLS,
    css`
      h2 + p {
        margin-top: -4px;
      }
    `,
  ];
  readonly #lint = new LoadedDocument<Lint>(this, {
    load: (signal) => getDocument('../overviews/lint', signal),
  });

  protected override render(): TemplateResult {
    return html`
      <div class="head">
        <h1>Lint</h1>
        <p>Rules that their authors may not have meant, as <code>nodewall lint</code> says.</p>
      </div>
      ${this.#lint.render((lint) => this.#found(lint))}
    `;
  }

  #found({ findings, leftOut, time }: Lint): TemplateResult {
    if (findings.length === 0)
      return html`<p><span class="good">●</span> Nothing to say of the policies as of ${timeText(time)}.</p>`;
    const kinds = Map.groupBy(findings, ({ kind }) => kind);
    return html`
      <p class="muted">
        ${countText(findings.length + leftOut, 'finding')} as of ${timeText(time)}.
        <button @click=${this.#lint.reload}>Again</button>
      </p>
      ${[...kinds].map(([kind, alike]) => findingTable(kind, alike))}
      ${leftOut > 0 ? html`<p class="muted">${numberText(leftOut)} more are left out.</p>` : nothing}
    `;
  }
}

function findingTable(kind: FindingKind, findings: readonly NodeFinding[]): TemplateResult {
  return html`
    <section aria-labelledby=${kind}>
      <h2 id=${kind}>${kind} <span class="muted">${numberText(findings.length)}</span></h2>
      <p class="muted">${MEANINGS[kind]}</p>
      ${dataTable({
        name: { id: kind },
        rows: findings,
        columns: [
          { title: 'Policy/rule', style: 'name', cell: ({ policy, rule }) => `${policy}/${rule}` },
          { title: 'Direction', style: 'short', cell: ({ direction }) => direction },
          { title: 'Finding', cell: findingText },
          { title: 'Nodes', cell: ({ nodes, nodeCount }) => namesText(nodes, nodeCount) },
          {
            title: 'Explain',
            isTitleHidden: true,
            style: 'short',
            cell: ({ policy, rule, nodes: [node], flow }) =>
              flow === null || node === undefined
                ? nothing
                : flowLink(flow, node, `a flow of ${policy}/${rule}`),
          },
        ],
      })}
    </section>
  `;
}
