import { html, nothing, type TemplateResult } from 'lit';

export interface Column<Row> {
  readonly title: string;
  /** Whether only a reader by ear has the title. */
  readonly isTitleHidden?: boolean;
  /** Classes of its cells; a title is aligned as the numbers below it. */
  readonly style?: string | ((row: Row) => string);
  readonly cell: (row: Row, index: number) => unknown;
}

export interface DataTable<Row> {
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
