import { css, html, LitElement, nothing, type PropertyValues, type TemplateResult } from 'lit';
import type { Overview, OverviewNode } from '../../apis/console.ts';
import { type NodeRow, nodeRows } from '../data/matrix.ts';
import { type Column, dataTable } from '../view/data-table.ts';
import { toHash } from '../view/links.ts';
import { CELL_MARKS, markOf, markTemplate, NODE_MARKS } from '../view/marks.ts';
import { BASE_STYLES, CONTROLS, TABLE_STYLES } from '../view/styles.ts';
import { ageText, countText, numberText, timeText } from '../view/texts.ts';

/** Rows that are shown at first, and with each further wish. */
const PAGE = 250;
/** Exceptions that a row names. */
const MOST_EXCEPTIONS = 3;

/** A row for each node; those where something is not as wanted come first. */
export class NodeList extends LitElement {
  static override properties = {
    overview: { attribute: false },
    now: { attribute: false },
    filter: { attribute: false },
    onlyExceptions: { attribute: false },
    most: { state: true },
  };
  static override styles = [
    BASE_STYLES,
    TABLE_STYLES,
    CONTROLS,
    css`
      ul {
        list-style: none;
        margin: 0;
        padding: 0;
      }
    `,
  ];
  declare overview: Overview;
  declare now: number;
  declare filter: string;
  declare onlyExceptions: boolean;
  declare most: number;
  #rows: readonly NodeRow[] = [];

  constructor() {
    super();
    this.most = PAGE;
  }

  protected override willUpdate(changed: PropertyValues<this>): void {
    if (!changed.has('overview')) return;
    const { nodes } = this.overview;
    const isBad = (row: NodeRow): boolean =>
      row.exceptions.length > 0 || nodes[row.index]?.phase !== 'Enforced';
    const rows = nodeRows(this.overview);
    this.#rows = [...rows.filter(isBad), ...rows.filter((row) => !isBad(row))];
  }

  protected override render(): TemplateResult {
    const { nodes } = this.overview;
    const fitting = this.#rows.filter(
      ({ index, exceptions }) =>
        nodes[index]?.name.toLowerCase().includes(this.filter) &&
        (!this.onlyExceptions || exceptions.length > 0 || nodes[index]?.phase !== 'Enforced'),
    );
    if (nodes.length === 0) return html`<p class="muted">There are no nodes yet.</p>`;
    if (fitting.length === 0)
      return html`<p class="muted" role="status">None of ${countText(nodes.length, 'node')} fits.</p>`;
    const left = fitting.length - this.most;
    return html`
      ${dataTable({ name: 'Nodes', rows: fitting.slice(0, this.most), columns: this.#columns })}
      ${
        left > 0
          ? html`<p><button @click=${this.#more}>Show ${numberText(Math.min(left, PAGE))} of ${countText(left, 'more node')}</button></p>`
          : nothing
      }
    `;
  }

  readonly #more = (): void => {
    this.most += PAGE;
  };

  readonly #columns: readonly Column<NodeRow>[] = [
    { title: 'Node', style: 'name', cell: ({ index }) => this.#node(index)?.name },
    {
      title: 'Phase',
      cell: ({ index }) => markTemplate(markOf(NODE_MARKS, this.#node(index)?.phase ?? 'Unknown')),
    },
    {
      title: 'Policies in force',
      style: 'short',
      cell: ({ desired, inForce }) => `${numberText(inForce)} of ${numberText(desired)}`,
    },
    {
      title: 'Exceptions',
      cell: ({ index, exceptions }) => html`${this.#message(index)} ${this.#exceptions(exceptions)}`,
    },
    {
      title: 'Reported',
      style: 'short',
      cell: ({ index }) => this.#reported(this.#node(index)?.reported ?? null),
    },
    { title: 'Agent', style: 'short', cell: ({ index }) => agentText(this.#node(index)) },
  ];

  #node(index: number): OverviewNode | undefined {
    return this.overview.nodes[index];
  }

  #message(index: number): TemplateResult | typeof nothing {
    const { message = '' } = this.#node(index) ?? {};
    return message === '' ? nothing : html`<span>${message}</span>`;
  }

  #reported(time: string | null): TemplateResult | string {
    if (time === null) return 'never';
    return html`<time datetime=${time} title=${timeText(time)}>${ageText(time, this.now)}</time>`;
  }

  #exceptions(exceptions: NodeRow['exceptions']): TemplateResult | typeof nothing {
    if (exceptions.length === 0) return nothing;
    const left = exceptions.length - MOST_EXCEPTIONS;
    return html`<ul>
      ${exceptions.slice(0, MOST_EXCEPTIONS).map(
        ({ policy, exception }) =>
          html`<li>
            <a href=${toHash('in-force', { filter: policy.name })}>${policy.name}</a>
            ${markTemplate(markOf(CELL_MARKS, exception.state))} ${exception.reason}
          </li>`,
      )}
      ${left > 0 ? html`<li class="muted">${numberText(left)} more</li>` : nothing}
    </ul>`;
  }
}
customElements.define('node-list', NodeList);

function agentText(node: OverviewNode | undefined): TemplateResult | string {
  const agent = [node?.version, node?.dataplane].filter((part) => part != null).join(', ');
  return agent === '' ? html`<span class="muted">not known</span>` : agent;
}
