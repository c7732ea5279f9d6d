import { css, html, LitElement, nothing, type TemplateResult } from 'lit';
import type { Preview, PreviewImpact, PreviewRequest, PreviewRow } from '../../apis/console-documents.ts';
import type { NodeGroup } from '../../apis/difference/row.ts';
import { brokenText, decidedText } from '../../apis/explanation-text.ts';
import type { Problem } from '../../apis/objects.ts';
import { type ApiError, postDocument } from '../data/api.ts';
import { dataTable } from '../view/data-table.ts';
import { askedText, failureBlock } from '../view/loaded.ts';
import { BASE_STYLES, CONTROLS, TABLE_STYLES } from '../view/styles.ts';
import { countText, namesText, numberText, protocolAndPort, timeText } from '../view/texts.ts';

const EXAMPLE = `apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: …}
spec: …`;

/** Paste YAML: what applying it would do. Nothing is stored, and nothing is sent to nodes. */
export class PreviewPage extends LitElement {
  static override properties = { preview: { state: true }, error: { state: true }, busy: { state: true } };
  static override styles = [
    BASE_STYLES,
    TABLE_STYLES,
    CONTROLS,
    css`
      form {
        max-width: 1100px;
      }
      label {
        display: block;
        margin-bottom: 4px;
        font-weight: 500;
      }
      .actions {
        display: flex;
        align-items: center;
        gap: 12px;
        margin: 8px 0 20px;
      }
      .flows {
        font-family: var(--mono);
        font-size: 12px;
      }
      tr.denied > :first-child {
        box-shadow: inset 3px 0 var(--bad);
      }
      tr.allowed > :first-child {
        box-shadow: inset 3px 0 var(--good);
      }
      .block {
        border-inline-start: 3px solid var(--bad);
        padding: 6px 12px;
      }
    `,
  ];
  declare preview: Preview | null;
  declare error: ApiError | null;
  declare busy: boolean;
  #sending = new AbortController();

  constructor() {
    super();
    this.preview = null;
    this.error = null;
    this.busy = false;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#sending.abort();
  }

  protected override render(): TemplateResult {
    return html`
      <div class="head">
        <h1>Preview</h1>
        <p>What a change would allow and deny, before it is applied. Nothing is stored.</p>
      </div>
      <form @submit=${this.#submit}>
        <label for="yaml">Policies, groups, tiers and guardrails, as for <code>kubectl apply</code></label>
        <textarea
          id="yaml"
          name="yaml"
          rows="14"
          spellcheck="false"
          autocapitalize="off"
          autocomplete="off"
          required
          placeholder=${EXAMPLE}
          @keydown=${this.#onKey}
        ></textarea>
        <div class="actions">
          <button class="main" ?disabled=${this.busy}>Show what changes</button>
          <span class="muted">${this.busy ? 'Computing…' : 'Ctrl+Enter'}</span>
        </div>
      </form>
      <div role="status">${this.#result()}</div>
    `;
  }

  readonly #onKey = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey))
      (event.target as HTMLTextAreaElement).form?.requestSubmit();
  };

  readonly #submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const yaml = String(new FormData(event.target as HTMLFormElement).get('yaml') ?? '');
    this.#sending.abort();
    const sending = new AbortController();
    this.#sending = sending;
    this.busy = true;
    const body: PreviewRequest = { yaml };
    try {
      const preview = await postDocument<Preview>('../previews', body, sending.signal);
      if (sending.signal.aborted) return;
      this.preview = preview;
      this.error = null;
    } catch (error) {
      if (sending.signal.aborted) return;
      this.preview = null;
      this.error = error as ApiError;
    }
    this.busy = false;
  };

  #result(): TemplateResult | typeof nothing {
    if (this.error !== null)
      return failureBlock(this.error, () => this.renderRoot.querySelector('form')?.requestSubmit());
    if (this.preview === null) return nothing;
    const { problems, objects, brokenGuardrail, time } = this.preview;
    const isRefused = problems.some(({ severity }) => severity === 'error');
    return html`
      ${problems.length === 0 ? nothing : problemTable(problems)}
      ${
        isRefused
          ? html`<p class="muted">With errors nothing else is computed.</p>`
          : html`
            ${
              brokenGuardrail === null
                ? nothing
                : html`<p class="block">
                  <b class="bad">Guardrail ${brokenGuardrail.guardrail} would be broken:</b>
                  ${brokenText(brokenGuardrail)}. The API server would refuse the change.
                </p>`
            }
            <p class="muted">Compared with what is there as of ${timeText(time)}:
              ${objects.map(({ kind, name, change }, i) => html`${i === 0 ? '' : ', '}${kind}/${name} ${change}`)}.</p>
            ${difference(this.preview)} ${impactTable(this.preview.impact)}
          `
      }
    `;
  }
}

function problemTable(problems: readonly Problem[]): TemplateResult {
  return html`
    <h2 id="problems">Problems</h2>
    ${dataTable({
      name: { id: 'problems' },
      rows: problems,
      columns: [
        {
          title: 'Severity',
          style: ({ severity }) => (severity === 'error' ? 'bad' : 'warn'),
          cell: ({ severity }) => severity,
        },
        { title: 'Line', style: 'number', cell: ({ line }) => (line === 0 ? nothing : line) },
        { title: 'Object', style: 'name', cell: ({ kind, name }) => (kind === '' ? '' : `${kind}/${name}`) },
        { title: 'Field', style: 'flows', cell: ({ path }) => path },
        { title: 'Problem', cell: ({ message }) => message },
      ],
    })}
  `;
}

function difference({ groups, leftOut, noDifference }: Preview): TemplateResult {
  return html`
    <h2>Difference</h2>
    ${
      noDifference !== null
        ? html`<p class="warn">Not known: ${noDifference}</p>`
        : groups.length === 0
          ? html`<p>No verdict changes on any node.</p>`
          : groups.map((group, i) => groupTable(group, i))
    }
    ${leftOut > 0 ? html`<p class="muted">${numberText(leftOut)} more rows: <code>nodewall diff</code> has all.</p>` : nothing}
  `;
}

function groupTable(
  { nodes, nodeCount = nodes.length, changes }: NodeGroup<PreviewRow>,
  index: number,
): TemplateResult {
  const id = `group-${index}`;
  return html`
    <p id=${id}><b>${countText(nodeCount, 'node')}:</b> ${namesText(nodes, nodeCount, 6)}</p>
    ${dataTable({
      name: { id },
      rows: changes,
      rowStyle: (row) => kindOf(row),
      columns: [
        {
          title: 'Change',
          style: (row) => `short ${CHANGES[kindOf(row)].tone}`,
          cell: (row) => CHANGES[kindOf(row)].words,
        },
        {
          title: 'Direction',
          style: 'short',
          cell: ({ direction, traffic }) => `${direction}${traffic === 'Host' ? '' : ` ${traffic}`}`,
        },
        { title: 'Flows', style: 'flows', cell: ({ flowsText }) => flowsText },
        { title: 'Peers', style: 'flows', cell: ({ peersText }) => peersText },
        { title: 'Before', cell: ({ before, ruleBefore }) => decidedText(before, ruleBefore) },
        { title: 'After', cell: ({ after, ruleAfter }) => decidedText(after, ruleAfter) },
      ],
    })}
  `;
}

const CHANGES = {
  denied: { words: '− newly denied', tone: 'bad' },
  allowed: { words: '+ newly allowed', tone: 'good' },
  other: { words: '≠ other rule', tone: 'quiet' },
} as const;

function kindOf({ before, after }: PreviewRow): keyof typeof CHANGES {
  if (after === 'Allow') return 'allowed';
  return before === 'Allow' ? 'denied' : 'other';
}

/** Flows of the last days that a change would deny. */
function impactTable(impact: PreviewImpact): TemplateResult {
  if ('reason' in impact)
    return html`<h2>Impact</h2>
      <p class="muted">Not known: ${impact.reason}</p>`;
  const { asked, flows, isCut } = impact;
  return html`
    <h2 id="impact">Impact on flows that nodes have seen</h2>
    ${askedText(asked)}
    ${
      flows.length === 0
        ? html`<p>None of the flows that these nodes know would be denied.</p>`
        : dataTable({
            name: { id: 'impact' },
            rows: flows,
            rowStyle: () => 'denied',
            columns: [
              { title: 'Newly denied peer', style: 'name', cell: ({ peer }) => peer },
              { title: 'Direction', style: 'short', cell: ({ direction }) => direction },
              { title: 'Service', style: 'short', cell: protocolAndPort },
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
                cell: ({ decision }) =>
                  decision?.rule == null ? 'no rule' : `${decision.policy}/${decision.rule}`,
              },
              { title: 'Nodes', cell: ({ nodes }) => namesText(nodes) },
            ],
          })
    }
    ${isCut ? html`<p class="muted">There are more than these ${countText(flows.length, 'kind')}.</p>` : nothing}
  `;
}
