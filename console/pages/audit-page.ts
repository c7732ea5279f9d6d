import { css, html, LitElement, nothing, type TemplateResult } from 'lit';
import type { Audit, AuditPeer, AuditRule } from '../../apis/console-documents.ts';
import { getDocument } from '../data/api.ts';
import { toHash } from '../data/route.ts';
import { askedText } from '../view/asked-text.ts';
import { explainLink } from '../view/explain-link.ts';
import { Loaded } from '../view/loaded.ts';
import { verdictText } from '../view/marks.ts';
import { BASE, CONTROLS, TABLES } from '../view/styles.ts';
import { namesText, numberText, serviceText, timeText } from '../view/texts.ts';

/** Verdicts that policies with `mode: Audit` would have given. */
export class AuditPage extends LitElement {
  static override properties = { parameters: { attribute: false } };
  static override styles = [
    BASE,
    TABLES,
    CONTROLS,
    css`
      form {
        margin: 0;
      }
    `,
  ];
  declare parameters: URLSearchParams;
  readonly #audit = new Loaded<Audit>(this, {
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
  return html`<div class="scroll">
    <table aria-labelledby="rules">
      <thead>
        <tr>
          <th scope="col">Policy/rule</th>
          <th scope="col">Would</th>
          <th scope="col">Direction</th>
          <th scope="col" class="number">Packets</th>
          <th scope="col">Last hit</th>
          <th scope="col">Nodes</th>
        </tr>
      </thead>
      <tbody>
        ${rules.map(
          ({ policy, rule, action, direction, packets, lastHit, nodes }) =>
            html`<tr>
              <th scope="row" class="name">${policy}/${rule}</th>
              <td>${verdictText(action)}</td>
              <td class="short">${direction}</td>
              <td class="number">${numberText(packets)}</td>
              <td class="short">
                ${lastHit === null ? html`<span class="muted">never</span>` : timeText(lastHit)}
              </td>
              <td>${namesText(nodes)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function peerTable(peers: readonly AuditPeer[]): TemplateResult {
  return html`<div class="scroll">
    <table aria-labelledby="audited">
      <thead>
        <tr>
          <th scope="col">Peer</th>
          <th scope="col">Service</th>
          <th scope="col">Would</th>
          <th scope="col">Policy/rule</th>
          <th scope="col">Direction</th>
          <th scope="col" class="number">Records</th>
          <th scope="col">Last seen</th>
          <th scope="col">Nodes</th>
          <th scope="col"><span class="hidden">Explain</span></th>
        </tr>
      </thead>
      <tbody>
        ${peers.map(
          (peer) =>
            html`<tr>
              <th scope="row" class="name">${peer.peer}</th>
              <td class="short">${serviceText(peer)}</td>
              <td>${verdictText(peer.verdict)}</td>
              <td class="name">${peer.policy}/${peer.rule}</td>
              <td class="short">${peer.direction}</td>
              <td class="number">${numberText(peer.records)}</td>
              <td class="short">${timeText(peer.lastSeen)}</td>
              <td>${namesText(peer.nodes)}</td>
              <td class="short">${explainLink(peer, peer.nodes[0])}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
