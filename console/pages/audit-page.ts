import { css, html, LitElement, nothing, type TemplateResult } from 'lit';
import type { Audit, AuditPeer, AuditRule } from '../../apis/console-documents.ts';
import { getDocument } from '../data/api.ts';
import { dataTable } from '../view/data-table.ts';
import { explainLink, toHash } from '../view/links.ts';
import { askedText, LoadedDocument } from '../view/loaded.ts';
import { verdictText } from '../view/marks.ts';
import { BASE_STYLES, CONTROLS, TABLE_STYLES } from '../view/styles.ts';
import { namesText, numberText, protocolAndPort, timeText } from '../view/texts.ts';

/** Verdicts that policies with `mode: Audit` would have given. */
export class AuditPage extends LitElement {
  static override properties = { parameters: { attribute: false } };
  static override styles = [
    BASE_STYLES,
    TABLE_STYLES,
    CONTROLS,
    css`
      form {
        margin: 0;
      }
    `,
  ];
  declare parameters: URLSearchParams;
  readonly #audit = new LoadedDocument<Audit>(this, {
    load: (signal) => getDocument(`../overviews/audit${nodeQuery(this.parameters)}`, signal),
  });
  #asked: string | null = null;

  protected override updated(): void {
    const query = nodeQuery(this.parameters);
    if (this.#asked !== null && this.#asked !== query) this.#audit.reload();
    this.#asked = query;
  }

  protected override render(): TemplateResult {
    return html`
      <div class="head">
        <h1>Audit</h1>
        <p>What the rules of policies with <code>mode: Audit</code> would decide. They decide nothing.</p>
      </div>
      <form class="tools" @submit=${this.#submit}>
        <label>
          Nodes
          <input name="nodes" placeholder="all, or names" .value=${this.parameters.getAll('node').join(' ')} />
        </label>
        <button>Ask</button>
      </form>
      ${this.#audit.render((audit) => this.#audited(audit))}
    `;
  }

  readonly #submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const text = String(new FormData(event.target as HTMLFormElement).get('nodes') ?? '');
    const names = text.split(/[\s,]+/).filter((name) => name !== '');
    const hash = `${toHash('audit')}${nodeQuery(new URLSearchParams(names.map((name) => ['node', name])))}`;
    if (location.hash === hash) this.#audit.reload();
    else location.hash = hash;
  };

  #audited({ asked, rules, peers, isCut, time }: Audit): TemplateResult {
    if (rules.length === 0) return html`<p class="muted">No policy has <code>mode: Audit</code>.</p>`;
    return html`
      ${askedText(asked)}
      <h2 id="rules">By rule, as of ${timeText(time)}</h2>
      ${ruleTable(rules)}
      <h2 id="audited">By peer</h2>
      ${
        peers.length === 0
          ? html`<p class="muted">No connection matched one of these rules in the records that nodes have.</p>`
          : peerTable(peers)
      }
      ${isCut ? html`<p class="muted">There are more; these have the most records.</p>` : nothing}
    `;
  }
}

function nodeQuery(parameters: URLSearchParams): string {
  const query = new URLSearchParams(parameters.getAll('node').map((name) => ['node', name]));
  return query.size === 0 ? '' : `?${query}`;
}

function ruleTable(rules: readonly AuditRule[]): TemplateResult {
  return dataTable({
    name: { id: 'rules' },
    rows: rules,
    columns: [
      { title: 'Policy/rule', style: 'name', cell: ({ policy, rule }) => `${policy}/${rule}` },
      { title: 'Would', cell: ({ action }) => verdictText(action) },
      { title: 'Direction', style: 'short', cell: ({ direction }) => direction },
      { title: 'Packets', style: 'number', cell: ({ packets }) => numberText(packets) },
      {
        title: 'Last hit',
        style: 'short',
        cell: ({ lastHit }) =>
          lastHit === null ? html`<span class="muted">never</span>` : timeText(lastHit),
      },
      { title: 'Nodes', cell: ({ nodes }) => namesText(nodes) },
    ],
  });
}

function peerTable(peers: readonly AuditPeer[]): TemplateResult {
  return dataTable({
    name: { id: 'audited' },
    rows: peers,
    columns: [
      { title: 'Peer', style: 'name', cell: ({ peer }) => peer },
      { title: 'Service', style: 'short', cell: protocolAndPort },
      { title: 'Would', cell: ({ verdict }) => verdictText(verdict) },
      { title: 'Policy/rule', style: 'name', cell: ({ policy, rule }) => `${policy}/${rule}` },
      { title: 'Direction', style: 'short', cell: ({ direction }) => direction },
      { title: 'Records', style: 'number', cell: ({ records }) => numberText(records) },
      { title: 'Last seen', style: 'short', cell: ({ lastSeen }) => timeText(lastSeen) },
      { title: 'Nodes', cell: ({ nodes }) => namesText(nodes) },
      {
        title: 'Explain',
        isTitleHidden: true,
        style: 'short',
        cell: (peer) => explainLink(peer, peer.nodes[0]),
      },
    ],
  });
}
