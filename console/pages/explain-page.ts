import type { OverviewNode } from '../../apis/console.ts';
import { flowText, outcomeText, reasonText } from '../../apis/explanation-text.ts';
import type { Considered, Flow, NodeExplanation } from '../../apis/flow.ts';
import { type ApiError, getDocument } from '../data/api.ts';
import { FLOW_FIELDS, type FlowField, type FlowValues, flowOfForm, toFlowValues } from '../data/flow-form.ts';
import '../view/data-table.ts';
import { css, html, LitElement, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { dataTable } from '../view/data-table.ts';
import { toHash } from '../view/links.ts';
import { failureBlock } from '../view/loaded.ts';
import { verdictText } from '../view/marks.ts';
import { BASE_STYLES, CONTROLS, TABLE_STYLES } from '../view/styles.ts';

const PROTOCOLS = ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'igmp', 'ospf', 'vrrp', 'gre', 'esp', 'ah'];
/** Fields that most questions leave empty. */
const RARE: readonly { readonly field: FlowField; readonly label: string; readonly hint: string }[] = [
  { field: 'srcPort', label: 'From port', hint: '' },
  { field: 'icmpType', label: 'ICMP type', hint: '' },
  { field: 'icmpCode', label: 'ICMP code', hint: '' },
  { field: 'igmpType', label: 'IGMP type', hint: '' },
  { field: 'interfaceGroup', label: 'Interface group', hint: 'name or number' },
  { field: 'originalDst', label: 'To address before NAT', hint: '' },
  { field: 'originalDstPort', label: 'To port before NAT', hint: '' },
];

interface Answered extends NodeExplanation {
  readonly flow: Flow;
}

/**
 * The verdict of the rules in force on a node for one connection, and the rules it went through.
 */
export class ExplainPage extends LitElement {
  static override properties = {
    nodes: { attribute: false },
    parameters: { attribute: false },
    answered: { state: true },
    error: { state: true },
    busy: { state: true },
  };
  static override styles = [
    BASE_STYLES,
    TABLE_STYLES,
    CONTROLS,
    css`
      .fields {
        display: flex;
        flex-wrap: wrap;
        gap: 10px 14px;
        align-items: end;
        margin-bottom: 10px;
      }
      label {
        display: grid;
        gap: 3px;
        font-size: 12px;
        color: var(--muted);
      }
      label > * {
        font-size: 13px;
        color: var(--text);
        width: 22ch;
      }
      label.narrow > * {
        width: 12ch;
      }
      details {
        margin-bottom: 12px;
      }
      summary {
        cursor: pointer;
        color: var(--muted);
        margin-bottom: 8px;
        width: fit-content;
      }
      form {
        margin-bottom: 20px;
      }
      .answer {
        margin: 4px 0 12px;
        font-size: 15px;
      }
      .answer .mark {
        font-weight: 650;
      }
      tr.decided > * {
        background: var(--panel);
        font-weight: 550;
      }
      copy-line {
        width: fit-content;
        margin-top: 16px;
      }
    `,
  ];
  declare nodes: readonly OverviewNode[];
  declare parameters: URLSearchParams;
  declare answered: Answered | null;
  declare error: ApiError | null;
  declare busy: boolean;
  #asking = new AbortController();

  constructor() {
    super();
    this.nodes = [];
    this.answered = null;
    this.error = null;
    this.busy = false;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#asking.abort();
  }

  get #values(): FlowValues {
    return { direction: 'ingress', protocol: 'tcp', ...toFlowValues(this.parameters.get('flow') ?? '') };
  }

  /** A link with a question is answered at once. */
  protected override updated(changed: PropertyValues<this>): void {
    const [node, flow] = [this.parameters.get('node'), this.parameters.get('flow')];
    if (changed.has('parameters') && node !== null && flow !== null)
      void this.#ask(node, flowOfForm(this.#values));
  }

  protected override render(): TemplateResult {
    return html`
      <div class="head">
        <h1>Explain</h1>
        <p>What the rules in force on a node decide about one new connection, and why.</p>
      </div>
      <form @submit=${this.#submit}>
        ${this.#usualFields()} ${this.#rareFields()}
        <button class="main" ?disabled=${this.busy}>Explain</button>
        ${this.busy ? html`<span class="muted">Asking the node…</span>` : nothing}
      </form>
      <div role="status">${this.#result()}</div>
    `;
  }

  #usualFields(): TemplateResult {
    const values = this.#values;
    const node = this.parameters.get('node') ?? this.nodes[0]?.name ?? '';
    return html`<div class="fields">
      <label>
        Node
        <input name="node" required list="nodes" .value=${node} autocomplete="off" />
        <datalist id="nodes">${this.nodes.map(({ name }) => html`<option value=${name}></option>`)}</datalist>
      </label>
      ${choice('Direction', 'direction', values.direction ?? '', ['ingress', 'egress'])}
      ${input('From address', 'src', values, 'any')} ${input('To address', 'dst', values, 'any')}
      <label class="narrow">
        Protocol
        <input name="protocol" list="protocols" placeholder="any" .value=${values.protocol ?? ''} autocomplete="off" />
        <datalist id="protocols">${PROTOCOLS.map((name) => html`<option value=${name}></option>`)}</datalist>
      </label>
      ${input('To port', 'dstPort', values, 'any', 'narrow')}
    </div>`;
  }

  #rareFields(): TemplateResult {
    const values = this.#values;
    const isUsed = RARE.some(({ field }) => field in values) || values.traffic === 'NodePort';
    return html`<details ?open=${isUsed}>
      <summary>More fields</summary>
      <div class="fields">
        ${choice('Traffic', 'traffic', values.traffic ?? 'Host', ['Host', 'NodePort'])}
        ${RARE.map(({ field, label, hint }) => input(label, field, values, hint, 'narrow'))}
      </div>
    </details>`;
  }

  readonly #submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const values = Object.fromEntries(FLOW_FIELDS.map((field) => [field, String(form.get(field) ?? '')]));
    const { traffic, ...rest } = flowOfForm(values);
    const flow = traffic === 'NodePort' ? { ...rest, traffic } : rest;
    const node = String(form.get('node') ?? '').trim();
    const hash = toHash('explain', { node, flow: JSON.stringify(flow) });
    if (location.hash === hash) void this.#ask(node, flow);
    else location.hash = hash;
  };

  async #ask(node: string, flow: Flow): Promise<void> {
    this.#asking.abort();
    const asking = new AbortController();
    this.#asking = asking;
    this.busy = true;
    const query = new URLSearchParams({ flow: JSON.stringify(flow) });
    try {
      const path = `../nodeviews/${encodeURIComponent(node)}/explanation?${query}`;
      const { explanation } = await getDocument<NodeExplanation>(path, asking.signal);
      if (asking.signal.aborted) return;
      this.answered = { node, flow, explanation };
      this.error = null;
    } catch (error) {
      if (asking.signal.aborted) return;
      this.answered = null;
      this.error = error as ApiError;
    }
    this.busy = false;
  }

  #result(): TemplateResult | typeof nothing {
    if (this.error !== null)
      return failureBlock(this.error, () => this.renderRoot.querySelector('form')?.requestSubmit());
    if (this.answered === null) return nothing;
    const { node, flow, explanation } = this.answered;
    const { considered = [], audited = [] } = explanation;
    const line = `kubectl nodewall explain --node ${shellWord(node)} --flow ${shellWord(JSON.stringify(flow))}`;
    return html`
      <p class="muted">${flowText(flow, node)}</p>
      <p class="answer">${verdictText(explanation.verdict)}: ${reasonText(explanation)}</p>
      ${
        audited.length === 0
          ? nothing
          : html`<p class="muted">
            Audited: ${audited.map(({ policy, rule, action }) => `${policy}/${rule} (${action})`).join(', ')}
          </p>`
      }
      ${considered.length === 0 ? nothing : consideredTable(considered, flow.direction)}
      <copy-line .line=${line}></copy-line>
    `;
  }
}

function input(label: string, name: FlowField, values: FlowValues, hint: string, kind = ''): TemplateResult {
  return html`<label class=${kind}>
    ${label} <input name=${name} placeholder=${hint} .value=${values[name] ?? ''} autocomplete="off" />
  </label>`;
}

function choice(label: string, name: FlowField, value: string, choices: readonly string[]): TemplateResult {
  return html`<label class="narrow">
    ${label}
    <select name=${name}>
      ${choices.map((one) => html`<option .selected=${one === value}>${one}</option>`)}
    </select>
  </label>`;
}

function consideredTable(considered: readonly Considered[], direction: string): TemplateResult {
  return dataTable({
    name: 'Rules that were tested, in order',
    rows: considered,
    header: 2,
    rowStyle: ({ outcome }) => (outcome === 'decided' ? 'decided' : ''),
    columns: [
      { title: '#', style: 'number', cell: (_, i) => i + 1 },
      { title: 'Tier', style: 'short', cell: ({ tier }) => tier },
      { title: 'Policy/rule', style: 'name', cell: ({ policy, rule }) => `${policy}/${rule}` },
      { title: 'Index', style: 'short', cell: ({ ruleIndex }) => `${direction}[${ruleIndex}]` },
      { title: 'Action', cell: ({ action }) => verdictText(action) },
      { title: 'Outcome', cell: outcomeText },
    ],
  });
}

/** A word of a POSIX shell. */
function shellWord(text: string): string {
  return /^[\w.:/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
