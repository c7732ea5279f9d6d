import { css, html, LitElement, nothing, type TemplateResult } from 'lit';
import { BASE_STYLES, CONTROLS } from './styles.ts';

export interface Column<Row> {
  readonly title: string;
  /** Whether only a reader by ear has the title. */
  readonly isTitleHidden?: boolean;
  /** Classes of its cells; a title is aligned as the numbers below it. */
  readonly style?: string | ((row: Row) => string);
  readonly cell: (row: Row, index: number) => unknown;
}

interface DataTable<Row> {
  /** The table's name, or the id of the element that has it. */
  readonly name: string | { readonly id: string };
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  /** The column that names its row; absent: the first. */
  readonly header?: number;
  readonly rowStyle?: (row: Row) => string;
  /** Rows of a table that follow a row. */
  readonly below?: (row: Row) => TemplateResult | typeof nothing;
}

/** A table of the pages: scrolls by itself, and has a name, titles and a name of each row. */
export function dataTable<Row>(table: DataTable<Row>): TemplateResult {
  const { name, columns, rows, header = 0, rowStyle, below } = table;
  const label = typeof name === 'string' ? name : nothing;
  const labelledBy = typeof name === 'string' ? nothing : name.id;
  return html`<div class="scroll">
    <table aria-label=${label} aria-labelledby=${labelledBy}>
      <thead>
        <tr>
          ${columns.map(
            ({ title, isTitleHidden, style }) =>
              html`<th scope="col" class=${style === 'number' ? style : nothing}>
                ${isTitleHidden ? html`<span class="hidden">${title}</span>` : title}
              </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row, index) =>
            html`<tr class=${rowStyle?.(row) ?? nothing}>
                ${columns.map(({ style, cell }, column) => {
                  const styles = (typeof style === 'function' ? style(row) : style) ?? nothing;
                  return column === header
                    ? html`<th scope="row" class=${styles}>${cell(row, index)}</th>`
                    : html`<td class=${styles}>${cell(row, index)}</td>`;
                })}
              </tr>
              ${below?.(row) ?? nothing}`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** A line for a shell, with a button that copies it. */
class CopyLine extends LitElement {
  static override properties = { line: {}, copied: { state: true } };
  static override styles = [
    BASE_STYLES,
    CONTROLS,
    css`
      :host {
        display: flex;
        align-items: stretch;
        max-width: 100%;
        border: 1px solid var(--line);
        border-radius: 5px;
        overflow: hidden;
      }
      code {
        flex: 1;
        min-width: 0;
        padding: 5px 10px;
        overflow-x: auto;
        white-space: pre;
        background: var(--panel);
      }
      button {
        border: 0;
        border-inline-start: 1px solid var(--line);
        border-radius: 0;
        background: var(--ground);
      }
      :focus-visible {
        outline-offset: -2px;
      }
    `,
  ];
  declare line: string;
  declare copied: boolean;

  constructor() {
    super();
    this.line = '';
    this.copied = false;
  }

  protected override render(): unknown {
    return html`<code tabindex="0" role="textbox" aria-readonly="true" aria-label="Command">${this.line}</code>
      <button @click=${this.#copy} aria-label=${`Copy: ${this.line}`}>
        ${this.copied ? 'Copied' : 'Copy'}
      </button>`;
  }

  /** Where the browser gives no access to the clipboard, the text is selected for the keyboard. */
  readonly #copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(this.line);
      this.copied = true;
    } catch {
      const code = this.renderRoot.querySelector('code');
      if (code !== null) getSelection()?.selectAllChildren(code);
    }
  };
}
customElements.define('copy-line', CopyLine);
