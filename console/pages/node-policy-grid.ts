import { css, html, LitElement, nothing, type PropertyValues, type TemplateResult } from 'lit';
import {
  type CellState,
  cellState,
  type Overview,
  type OverviewPolicy,
  overviewPolicyKey,
} from '../../apis/console.ts';
import { exceptionAt, isUnusual, type NodeRow, nodeRows } from '../data/matrix.ts';
import { toHash } from '../view/links.ts';
import { CELL_MARKS, type Mark, markOf, markTemplate } from '../view/marks.ts';
import { BASE_STYLES, styleOf } from '../view/styles.ts';
import { ageText, countText } from '../view/texts.ts';

/** Pixels: as in the style below. */
const ROW = 22;
/** Rows beyond those that are seen, on each side. */
const SPARE = 8;

interface Place {
  readonly row: number;
  readonly column: number;
}

/**
 * Every node and every policy: a sign where the policy applies to the node. Rows that are not seen
 * are not made, so that 5,000 nodes are as quick as 50. Arrow keys go from cell to cell.
 */
class NodePolicyGrid extends LitElement {
  static override properties = {
    overview: { attribute: false },
    now: { attribute: false },
    filter: { attribute: false },
    onlyExceptions: { attribute: false },
    place: { state: true },
    first: { state: true },
  };
  static override styles = [
    BASE_STYLES,
    css`
      .scroll {
        overflow: auto;
        max-height: calc(100vh - 190px);
        min-height: 300px;
        border: 1px solid var(--line);
        border-radius: 6px;
        width: fit-content;
        max-width: 100%;
      }
      table {
        border-collapse: separate;
        border-spacing: 0;
      }
      thead th {
        position: sticky;
        top: 0;
        z-index: 1;
        height: 132px;
        vertical-align: bottom;
        background: var(--panel);
        border-bottom: 1px solid var(--line);
        font-weight: 400;
        padding: 6px 0;
      }
      thead th span {
        display: block;
        writing-mode: sideways-lr;
        max-height: 120px;
        overflow: hidden;
        text-overflow: ellipsis;
        white-space: nowrap;
        line-height: 24px;
        margin: 0 auto;
      }
      tr > :first-child {
        position: sticky;
        inset-inline-start: 0;
        z-index: 1;
        width: 200px;
        min-width: 200px;
        max-width: 200px;
        padding: 0 12px;
        text-align: start;
        overflow: hidden;
        text-overflow: ellipsis;
        white-space: nowrap;
        background: var(--ground);
        border-inline-end: 1px solid var(--line);
        font-weight: 500;
      }
      thead tr > :first-child {
        z-index: 2;
        padding: 6px 12px;
        background: var(--panel);
        color: var(--muted);
      }
      tbody tr {
        height: 22px;
      }
      tbody td {
        width: 24px;
        min-width: 24px;
        max-width: 24px;
        height: 22px;
        padding: 0;
        text-align: center;
        line-height: 20px;
        font-family: var(--mono);
        cursor: default;
      }
      td.good {
        font-size: 9px;
      }
      td.bad {
        background: var(--bad-ground);
      }
      td.warn {
        background: var(--warn-ground);
      }
      tbody tr:hover > *,
      th.at {
        background: var(--panel);
      }
      td:focus {
        outline: 2px solid var(--accent);
        outline-offset: -2px;
      }
      .note {
        min-height: 20px;
        margin: 0 0 8px;
      }
      .legend {
        margin-top: 10px;
        max-width: none;
        display: flex;
        flex-wrap: wrap;
        gap: 2px 16px;
        color: var(--muted);
      }
    `,
  ];
  declare overview: Overview;
  declare now: number;
  declare filter: string;
  declare onlyExceptions: boolean;
  /** The cell that Tab comes to. */
  declare place: Place;
  /** The first row that is made. */
  declare first: number;
  #rows: readonly NodeRow[] = [];
  #columns: readonly OverviewPolicy[] = [];
  readonly #resized = new ResizeObserver(() => this.requestUpdate());

  constructor() {
    super();
    this.place = { row: 0, column: 0 };
    this.first = 0;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#resized.disconnect();
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#resized.observe(this);
  }

  protected override willUpdate(changed: PropertyValues<this>): void {
    if (!['overview', 'filter', 'onlyExceptions'].some((name) => changed.has(name as never))) return;
    const { nodes, policies } = this.overview;
    this.#rows = nodeRows(this.overview).filter(
      ({ index, exceptions, inForce, desired }) =>
        nodes[index]?.name.toLowerCase().includes(this.filter) &&
        (!this.onlyExceptions || exceptions.length > 0 || inForce < desired),
    );
    this.#columns = policies.filter((policy) => !this.onlyExceptions || isUnusual(policy));
    const { row, column } = this.place;
    this.place = { row: within(row, this.#rows), column: within(column, this.#columns) };
  }

  protected override render(): TemplateResult {
    if (this.#rows.length === 0 || this.#columns.length === 0)
      return html`<p class="muted" role="status">${this.#emptyText()}</p>`;
    const seen = Math.ceil((this.#scroller?.clientHeight ?? innerHeight) / ROW);
    const first = Math.max(0, Math.min(this.first, this.#rows.length - seen) - SPARE);
    const rows = this.#rows.slice(first, first + seen + 2 * SPARE);
    const after = this.#rows.length - first - rows.length;
    return html`
      <p class="note">${this.#note()}</p>
      <div class="scroll" @scroll=${this.#onScroll} @keydown=${this.#onKey} @focusin=${this.#onFocus} @mouseover=${this.#onFocus}>
        <table role="grid" aria-label="Nodes and policies" aria-rowcount=${this.#rows.length + 1} aria-colcount=${this.#columns.length + 1}>
          <thead>
            <tr aria-rowindex="1">
              <th scope="col">Node</th>
              ${this.#columns.map(
                (policy, column) =>
                  html`<th scope="col" class=${column === this.place.column ? 'at' : nothing} title=${titleOf(policy)}>
                    <span>${policy.name}</span>
                  </th>`,
              )}
            </tr>
          </thead>
          <tbody>
            ${spacer(first)} ${rows.map((row, i) => this.#row(row, first + i))} ${spacer(after)}
          </tbody>
        </table>
      </div>
      <p class="legend">
        ${Object.values(CELL_MARKS).map(markTemplate)}
        <span>empty: the policy does not apply to the node</span>
      </p>
    `;
  }

  #emptyText(): string {
    const { nodes, policies } = this.overview;
    if (nodes.length === 0) return 'There are no nodes yet.';
    if (policies.length === 0) return 'There are no policies yet.';
    return `None of ${countText(nodes.length, 'node')} and ${countText(policies.length, 'policy', 'policies')} fits.`;
  }

  #row({ index }: NodeRow, row: number): TemplateResult {
    const { nodes } = this.overview;
    const node = nodes[index];
    return html`<tr aria-rowindex=${row + 2}>
      <th scope="row" title=${node?.name ?? ''}>${node?.name}</th>
      ${this.#columns.map((policy, column) => {
        const mark = markOfCell(cellState(this.overview, policy, index));
        const isPlace = row === this.place.row && column === this.place.column;
        return html`<td
          class=${mark?.tone ?? nothing}
          tabindex=${isPlace ? 0 : -1}
          aria-label=${mark?.words ?? 'does not apply'}
          data-place=${`${row} ${column}`}
        >
          ${mark?.sign}
        </td>`;
      })}
    </tr>`;
  }

  get #scroller(): HTMLElement | null {
    return this.renderRoot.querySelector('.scroll');
  }

  readonly #onScroll = (event: Event): void => {
    const { scrollTop } = event.currentTarget as HTMLElement;
    const first = Math.floor(scrollTop / ROW);
    // Within the spare rows nothing new is seen.
    if (Math.abs(first - this.first) >= SPARE / 2) this.first = first;
  };

  readonly #onFocus = (event: Event): void => {
    const [row, column] = ((event.target as HTMLElement).dataset.place ?? '').split(' ').map(Number);
    if (row !== undefined && column !== undefined) this.place = { row, column };
  };

  readonly #onKey = (event: KeyboardEvent): void => {
    const { row, column } = this.place;
    const [lastRow, lastColumn] = [this.#rows.length - 1, this.#columns.length - 1];
    const seen = Math.max(1, Math.floor((this.#scroller?.clientHeight ?? 0) / ROW) - 7);
    const places: Readonly<Record<string, Place>> = {
      ArrowUp: { row: row - 1, column },
      ArrowDown: { row: row + 1, column },
      ArrowLeft: { row, column: column - 1 },
      ArrowRight: { row, column: column + 1 },
      PageUp: { row: row - seen, column },
      PageDown: { row: row + seen, column },
      Home: { row: event.ctrlKey ? 0 : row, column: 0 },
      End: { row: event.ctrlKey ? lastRow : row, column: lastColumn },
    };
    const policy = this.#columns[column];
    if (event.key === 'Enter' && policy !== undefined)
      location.hash = toHash('in-force', { filter: policy.name });
    const place = places[event.key];
    if (place === undefined) return;
    event.preventDefault();
    void this.#go({
      row: Math.max(0, Math.min(lastRow, place.row)),
      column: Math.max(0, Math.min(lastColumn, place.column)),
    });
  };

  async #go(place: Place): Promise<void> {
    this.place = place;
    const scroller = this.#scroller;
    if (scroller === null) return;
    const top = place.row * ROW;
    const height = scroller.clientHeight - 132 - 2 * ROW;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    if (top > scroller.scrollTop + height) scroller.scrollTop = top - height;
    this.first = Math.floor(scroller.scrollTop / ROW);
    await this.updateComplete;
    const cell = this.renderRoot.querySelector<HTMLElement>(`[data-place='${place.row} ${place.column}']`);
    cell?.focus({ preventScroll: true });
    cell?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }

  /** The note on the cell that has the focus, or was pointed at. */
  #note(): TemplateResult | typeof nothing {
    const { row, column } = this.place;
    const [index, policy] = [this.#rows[row]?.index, this.#columns[column]];
    const node = index === undefined ? undefined : this.overview.nodes[index];
    if (index === undefined || node === undefined || policy === undefined) return nothing;
    const state = cellState(this.overview, policy, index);
    const mark = markOfCell(state);
    return html`<b>${node.name}</b> × <b>${policy.name}</b>:
      ${mark === null ? 'does not apply' : markTemplate(mark)}${this.#noteRest(state, policy, index)}`;
  }

  /** Version, since when, and why. */
  #noteRest(state: CellState, policy: OverviewPolicy, index: number): string {
    const exception = exceptionAt(policy, index);
    if (state === 'NotApplied') return '';
    if (exception?.state === state) {
      const { generation, reason, since } = exception;
      const version = generation === null ? 'no version known there' : `version ${generation} there`;
      return `, ${version}, for ${ageText(since, this.now)}${reason === '' ? '' : `: ${reason}`}`;
    }
    const { enforcedGeneration, since, sinceAtLeast } = policy;
    const message = this.overview.nodes[index]?.message ?? '';
    if (state !== 'InForce') return message === '' ? '' : `: ${message}`;
    const version = enforcedGeneration ? `, version ${enforcedGeneration}` : '';
    const known = since ?? sinceAtLeast;
    const than = since === null ? 'more than ' : '';
    return known === null ? version : `${version}, on all its nodes for ${than}${ageText(known, this.now)}`;
  }
}
customElements.define('node-policy-grid', NodePolicyGrid);

function within(index: number, list: readonly unknown[]): number {
  return Math.max(0, Math.min(index, list.length - 1));
}

function markOfCell(state: CellState): Mark | null {
  return state === 'NotApplied' ? null : markOf(CELL_MARKS, state);
}

function titleOf(policy: OverviewPolicy): string {
  return `${overviewPolicyKey(policy)}, tier ${policy.tier}, ${policy.mode}: ${policy.message}`;
}

/** Stands for rows that are not made. */
function spacer(rows: number): TemplateResult | typeof nothing {
  if (rows === 0) return nothing;
  return html`<tr aria-hidden="true"><td ${styleOf({ height: `${rows * ROW}px` })}></td></tr>`;
}
