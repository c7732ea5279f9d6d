import type { Overview } from '../../apis/console.ts';
import type { StatusProblem } from '../../apis/status-problems.ts';
import { dataTable } from '../view/data-table.ts';
import { toHash } from '../view/links.ts';
import { markOf, markTemplate, NODE_MARKS, POLICY_MARKS } from '../view/marks.ts';
import { BASE_STYLES, CONTROLS, TABLE_STYLES } from '../view/styles.ts';
import { countText, numberText } from '../view/texts.ts';
import './node-list.ts';
import './node-policy-grid.ts';
import './policy-list.ts';
import { css, html, LitElement, nothing, type TemplateResult } from 'lit';

const VIEWS = { policies: 'By policy', nodes: 'By node', grid: 'Grid' } as const;
type View = keyof typeof VIEWS;

/** Problems of one kind and phase that are shown before somebody asks for all. */
const MOST_ALIKE = 3;

/** Node × policy: what is in force where, in which version, since when. Problems come first. */
export class InForcePage extends LitElement {
  static override properties = {
    overview: { attribute: false },
    now: { attribute: false },
    parameters: { attribute: false },
    showsAll: { state: true },
  };
  static override styles = [
    BASE_STYLES,
    TABLE_STYLES,
    CONTROLS,
    css`
      .views {
        display: inline-flex;
        border: 1px solid var(--line-strong);
        border-radius: 5px;
      }
      .views a {
        padding: 4px 12px;
        color: var(--muted);
      }
      .views a + a {
        border-inline-start: 1px solid var(--line);
      }
      .views a[aria-current] {
        color: var(--text);
        font-weight: 550;
        background: var(--panel);
      }
      .problems {
        margin-bottom: 20px;
      }
      .counts {
        display: flex;
        flex-wrap: wrap;
        gap: 4px 20px;
      }
    `,
  ];
  declare overview: Overview;
  declare now: number;
  declare parameters: URLSearchParams;
  declare showsAll: boolean;

  constructor() {
    super();
    this.showsAll = false;
  }

  get #view(): View {
    const view = this.parameters.get('view') ?? '';
    return view in VIEWS ? (view as View) : 'policies';
  }

  protected override render(): TemplateResult {
    const { nodes, policies, problems } = this.overview;
    return html`
      <div class="head">
        <h1>In force</h1>
        <p class="counts">
          <span>${countText(policies.length, 'policy', 'policies')}:</span>${counts(policies, POLICY_MARKS)}
        </p>
        <p class="counts"><span>${countText(nodes.length, 'node')}:</span>${counts(nodes, NODE_MARKS)}</p>
      </div>
      ${this.#problems(problems)} ${this.#tools()} ${this.#matrix()}
    `;
  }

  #problems(problems: readonly StatusProblem[]): TemplateResult {
    if (problems.length === 0) return html`<p><span class="good">●</span> No problems.</p>`;
    const groups = Map.groupBy(problems, ({ object, phase }) => `${object.split('/')[0]} ${phase}`);
    const shown = this.showsAll
      ? problems
      : [...groups.values()].flatMap((alike) => alike.slice(0, MOST_ALIKE));
    const left = problems.length - shown.length;
    return html`
      <section class="problems" aria-labelledby="problems">
        <h2 id="problems">${countText(problems.length, 'problem')}</h2>
        ${dataTable({
          name: { id: 'problems' },
          rows: shown,
          columns: [
            { title: 'Object', style: 'name', cell: ({ object }) => object },
            { title: 'Phase', style: 'short bad', cell: ({ phase }) => phase },
            { title: 'Why', cell: ({ message }) => message },
          ],
        })}
        ${
          left > 0 || this.showsAll
            ? html`<p>
              <button @click=${this.#toggle} aria-expanded=${this.showsAll}>
                ${this.showsAll ? 'Show fewer' : `Show ${numberText(left)} more`}
              </button>
            </p>`
            : nothing
        }
      </section>
    `;
  }

  readonly #toggle = (): void => {
    this.showsAll = !this.showsAll;
  };

  #tools(): TemplateResult {
    const { parameters } = this;
    const filter = parameters.get('filter') ?? '';
    return html`
      <div class="tools" role="search">
        <nav class="views" aria-label="Views">
          ${Object.entries(VIEWS).map(
            ([view, title]) =>
              html`<a
                href=${toHash('in-force', { ...Object.fromEntries(parameters), view })}
                aria-current=${view === this.#view ? 'true' : nothing}
                >${title}</a
              >`,
          )}
        </nav>
        <input
          type="search"
          aria-label="Names that contain"
          placeholder=${this.#view === 'policies' ? 'Policy' : 'Node'}
          .value=${filter}
          @input=${(event: Event) => this.#set('filter', (event.target as HTMLInputElement).value)}
        />
        <label class="check">
          <input
            type="checkbox"
            .checked=${parameters.get('only') === 'exceptions'}
            @change=${(event: Event) =>
              this.#set('only', (event.target as HTMLInputElement).checked ? 'exceptions' : '')}
          />
          Only where something is not as wanted
        </label>
      </div>
    `;
  }

  /** Replaces the address: a letter typed is no step to go back. */
  #set(name: string, value: string): void {
    const parameters = { ...Object.fromEntries(this.parameters), [name]: value };
    history.replaceState(null, '', toHash('in-force', parameters));
    this.parameters = new URLSearchParams(parameters);
  }

  #matrix(): TemplateResult {
    const { overview, now } = this;
    const filter = (this.parameters.get('filter') ?? '').toLowerCase();
    const onlyExceptions = this.parameters.get('only') === 'exceptions';
    switch (this.#view) {
      case 'policies':
        return html`<policy-list
          .overview=${overview}
          .now=${now}
          .filter=${filter}
          .onlyExceptions=${onlyExceptions}
        ></policy-list>`;
      case 'nodes':
        return html`<node-list
          .overview=${overview}
          .now=${now}
          .filter=${filter}
          .onlyExceptions=${onlyExceptions}
        ></node-list>`;
      case 'grid':
        return html`<node-policy-grid
          .overview=${overview}
          .now=${now}
          .filter=${filter}
          .onlyExceptions=${onlyExceptions}
        ></node-policy-grid>`;
    }
  }
}

function counts(
  values: readonly { readonly phase: string }[],
  marks: typeof POLICY_MARKS | typeof NODE_MARKS,
): TemplateResult[] {
  const byPhase = Map.groupBy(values, ({ phase }) => phase);
  return [...byPhase].map(
    ([phase, { length }]) =>
      html`<span>${markTemplate({ ...markOf(marks, phase), words: `${numberText(length)} ${phase}` })}</span>`,
  );
}
