import { css, html, LitElement, nothing, type PropertyValues, type TemplateResult } from 'lit';
import {
  type Overview,
  type OverviewPolicy,
  overviewPolicyKey,
  type PolicyException,
} from '../../apis/console.ts';
import { indexesOf, isUnusual, type StateCounts, sizeOf, stateCounts } from '../data/matrix.ts';
import { type Column, dataTable } from '../view/data-table.ts';
import { toHash } from '../view/links.ts';
import { CELL_MARKS, markOf, markTemplate, POLICY_MARKS } from '../view/marks.ts';
import { BASE_STYLES, styleOf, TABLE_STYLES } from '../view/styles.ts';
import { ageText, countText, namesText, numberText, timeText } from '../view/texts.ts';

/** Nodes that are named of each exception; By node has all. */
const MOST_NAMED = 12;

/** A row for each policy; a row opens, and names the nodes that are exceptions. */
class PolicyList extends LitElement {
  static override properties = {
    overview: { attribute: false },
    now: { attribute: false },
    filter: { attribute: false },
    onlyExceptions: { attribute: false },
    open: { state: true },
  };
  static override styles = [
    BASE_STYLES,
    TABLE_STYLES,
    css`
      .toggle {
        font: inherit;
        font-weight: 500;
        color: inherit;
        text-align: start;
        background: none;
        border: 0;
        padding: 0;
        cursor: pointer;
        overflow-wrap: anywhere;
      }
      .toggle::before {
        content: '▸';
        display: inline-block;
        width: 1.2em;
        color: var(--muted);
      }
      .toggle[aria-expanded='true']::before {
        content: '▾';
      }
      .toggle:hover {
        color: var(--accent);
      }
      .bar {
        display: block;
        width: 96px;
        height: 4px;
        margin-top: 3px;
        border-radius: 2px;
        background: var(--line-strong);
        overflow: hidden;
      }
      .bar span {
        display: block;
        height: 100%;
        background: var(--good);
      }
      .states {
        display: flex;
        flex-wrap: wrap;
        gap: 0 12px;
      }
      .detail > td {
        background: var(--panel);
        padding: 10px 16px 16px 28px;
      }
      .detail .scroll {
        background: var(--ground);
      }
    `,
  ];
  declare overview: Overview;
  declare now: number;
  declare filter: string;
  declare onlyExceptions: boolean;
  /** Keys of the policies whose rows are open. */
  declare open: ReadonlySet<string>;
  #counts: ReadonlyMap<OverviewPolicy, StateCounts> = new Map();

  constructor() {
    super();
    this.open = new Set();
  }

  protected override willUpdate(changed: PropertyValues<this>): void {
    if (!changed.has('overview')) return;
    const { policies } = this.overview;
    const counts = stateCounts(this.overview);
    this.#counts = new Map(policies.map((policy, i) => [policy, counts[i] ?? new Map()]));
  }

  protected override render(): TemplateResult {
    const { policies } = this.overview;
    const shown = policies.filter(
      (policy) =>
        policy.name.toLowerCase().includes(this.filter) &&
        (!this.onlyExceptions || isUnusual(policy) || this.#countsOf(policy).size > 1),
    );
    if (policies.length === 0)
      return html`<p class="muted">There are no policies yet. Write the first one with mode: Audit.</p>`;
    if (shown.length === 0)
      return html`<p class="muted" role="status">
        None of ${countText(policies.length, 'policy', 'policies')} fits.
      </p>`;
    return dataTable({
      name: 'Policies',
      rows: shown,
      columns: this.#columns,
      below: (policy) => (this.open.has(overviewPolicyKey(policy)) ? this.#detail(policy) : nothing),
    });
  }

  readonly #columns: readonly Column<OverviewPolicy>[] = [
    { title: 'Policy', style: 'name', cell: (policy) => this.#name(policy) },
    {
      title: 'Tier',
      style: 'short',
      cell: ({ tier, priority }) => html`${tier} <span class="muted">${priority}</span>`,
    },
    { title: 'Phase', cell: ({ phase }) => markTemplate(markOf(POLICY_MARKS, phase)) },
    { title: 'In force on', cell: (policy) => coverage(policy, this.#countsOf(policy)) },
    { title: 'Version', style: 'short', cell: versionText },
    { title: 'Since', style: 'short', cell: (policy) => this.#since(policy) },
    { title: 'Changed', style: 'short', cell: (policy) => this.#changed(policy) },
    { title: 'Exceptions', cell: (policy) => states(this.#countsOf(policy)) },
  ];

  readonly #exceptionColumns: readonly Column<PolicyException>[] = [
    { title: 'Nodes', style: 'name', cell: ({ nodes }) => this.#names(nodes) },
    { title: 'State', cell: ({ state }) => markTemplate(markOf(CELL_MARKS, state)) },
    {
      title: 'Since',
      style: 'short',
      cell: ({ since }) =>
        html`<time datetime=${since} title=${timeText(since)}>${ageText(since, this.now)}</time>`,
    },
    { title: 'Version there', style: 'short', cell: ({ generation }) => generation ?? '–' },
    {
      title: 'Why',
      cell: ({ rule, reason }) =>
        html`${rule === null ? nothing : html`rule <code>${rule}</code>: `}${reason}`,
    },
  ];

  #countsOf(policy: OverviewPolicy): StateCounts {
    return this.#counts.get(policy) ?? new Map();
  }

  #name(policy: OverviewPolicy): TemplateResult {
    const { apiGroup, name, mode, traffic } = policy;
    const key = overviewPolicyKey(policy);
    const kinds = [
      ...(mode === 'Audit' ? ['Audit'] : []),
      ...(traffic === 'Host' ? [] : [traffic]),
      ...(apiGroup === 'nodewall.io' ? [] : [apiGroup]),
    ];
    return html`<button class="toggle" aria-expanded=${this.open.has(key)} @click=${() => this.#toggle(key)}>
        ${name}
      </button>
      ${kinds.map((kind) => html` <span class="muted">${kind}</span>`)}`;
  }

  #changed({ changed }: OverviewPolicy): TemplateResult | typeof nothing {
    if (changed === null) return nothing;
    const { time, by } = changed;
    return html`<time datetime=${time} title=${`${timeText(time)}, by ${by}`}>${ageText(time, this.now)}</time>`;
  }

  #toggle(key: string): void {
    const open = new Set(this.open);
    if (!open.delete(key)) open.add(key);
    this.open = open;
  }

  #since({ since, sinceAtLeast }: OverviewPolicy): TemplateResult | typeof nothing {
    const time = since ?? sinceAtLeast;
    if (time === null) return nothing;
    const sign = since === null ? '> ' : '';
    return html`<time datetime=${time} title=${`${sign === '' ? 'since' : 'since before'} ${timeText(time)}`}
      >${sign}${ageText(time, this.now)}</time
    >`;
  }

  #detail(policy: OverviewPolicy): TemplateResult {
    const { exceptions, message, changed, apiGroup, name } = policy;
    const hasRollout =
      apiGroup === 'nodewall.io' && this.overview.rollouts.some((one) => one.policy === name);
    return html`<tr class="detail">
      <td colspan=${this.#columns.length}>
        <p>${message}</p>
        ${
          changed === null
            ? nothing
            : html`<p class="muted">Changed ${timeText(changed.time)} by ${changed.by}.</p>`
        }
        ${hasRollout ? html`<p><a href=${toHash('rollouts')}>Its rollout</a></p>` : nothing}
        ${
          exceptions.length === 0
            ? nothing
            : dataTable({
                name: `Exceptions of ${name}`,
                rows: exceptions,
                columns: this.#exceptionColumns,
              })
        }
      </td>
    </tr>`;
  }

  #names(nodes: PolicyException['nodes']): string {
    const names = [...indexesOf(nodes).take(MOST_NAMED)].map((i) => this.overview.nodes[i]?.name ?? '');
    return namesText(names, sizeOf(nodes), MOST_NAMED);
  }
}
customElements.define('policy-list', PolicyList);

function coverage({ nodes }: OverviewPolicy, counts: StateCounts): TemplateResult {
  const [desired, current] = [sizeOf(nodes), counts.get('InForce') ?? 0];
  if (desired === 0) return html`<span class="muted">no node</span>`;
  return html`<span class="short">${numberText(current)} of ${countText(desired, 'node')}</span>
    <span class="bar" aria-hidden="true"><span ${styleOf({ width: `${(100 * current) / desired}%` })}></span></span>`;
}

function versionText({ generation, enforcedGeneration }: OverviewPolicy): TemplateResult {
  if (generation === 0) return html`–`;
  if (enforcedGeneration === generation) return html`${generation}`;
  const newest = html`<span class="warn">newest ${generation}</span>`;
  return enforcedGeneration === null ? html`none, ${newest}` : html`${enforcedGeneration}, ${newest}`;
}

/** How many nodes are in a state other than in force. */
function states(counts: StateCounts): TemplateResult {
  const others = [...counts].filter(([state]) => state !== 'InForce');
  return html`<span class="states"
    >${others.map(([state, count]) => {
      const mark = markOf(CELL_MARKS, state);
      return markTemplate({ ...mark, words: `${numberText(count)} ${mark.words}` });
    })}</span
  >`;
}
