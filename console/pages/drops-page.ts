import { css, html, LitElement, nothing, type TemplateResult } from 'lit';
import type { DeniedPeers, DropCount, DropRule, Drops } from '../../apis/console-documents.ts';
import { getDocument } from '../data/api.ts';
import { type Column, dataTable } from '../view/data-table.ts';
import { explainLink } from '../view/explain-link.ts';
import { askedText } from '../view/failure.ts';
import { LoadedDocument } from '../view/loaded.ts';
import { verdictText } from '../view/marks.ts';
import { sparkline, stepChart } from '../view/step-chart.ts';
import { BASE_STYLES, CONTROLS, TABLE_STYLES } from '../view/styles.ts';
import { countText, namesText, numberText, protocolAndPort, rateText, timeText } from '../view/texts.ts';

/** Milliseconds: nodes report once a minute. */
const EVERY = 10_000;
const DAY = 86_400;
const HOURS = [0, 6, 12, 18, 24];

const CLOCK = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

/** Packets that rules drop and reject: now and over a day, by rule, node and peer. */
export class DropsPage extends LitElement {
  static override styles = [
    BASE_STYLES,
    TABLE_STYLES,
    CONTROLS,
    css`
      .figures {
        display: flex;
        flex-wrap: wrap;
        gap: 8px 40px;
        margin-bottom: 8px;
      }
      .figures b {
        font-size: 22px;
        font-weight: 600;
        letter-spacing: -0.02em;
      }
      .chart {
        display: block;
        width: 100%;
        max-height: 180px;
        margin: 0 0 16px;
      }
      .axis {
        stroke: var(--line-strong);
      }
      .bar {
        fill: var(--accent);
      }
      .chart text {
        font-size: 11px;
        fill: var(--muted);
      }
      .spark path {
        stroke: var(--accent);
        stroke-width: 1.4;
        fill: none;
      }
      .columns {
        display: grid;
        grid-template-columns: minmax(0, 3fr) minmax(0, 2fr);
        gap: 0 24px;
      }
      @media (max-width: 1100px) {
        .columns {
          grid-template-columns: minmax(0, 1fr);
        }
      }
    `,
  ];
  readonly #drops = new LoadedDocument<Drops>(this, {
    load: (signal) => getDocument('../overviews/drops', signal),
    every: EVERY,
  });
  readonly #peers = new LoadedDocument<DeniedPeers>(this, {
    load: (signal) => getDocument('../overviews/peers', signal),
  });

  protected override render(): TemplateResult {
    return html`
      <div class="head">
        <h1>Drops</h1>
        <p>What rules drop and reject, of reports that nodes send once a minute.</p>
      </div>
      ${this.#drops.render((drops) => this.#counted(drops))}
      <h2 id="peers">By peer <button @click=${this.#peers.reload}>Ask again</button></h2>
      ${this.#peers.render((peers) => this.#denied(peers))}
    `;
  }

  #counted(drops: Drops): TemplateResult {
    const { total, rules, nodes, since, remark, step, rulesLeftOut, nodesLeftOut } = drops;
    const count = Math.max(1, Math.round(DAY / step));
    return html`
      ${remark === null ? nothing : html`<p class="warn">${remark}</p>`}
      <div class="figures">
        <div><b>${rateText(total.packetsPerSecond)}</b> packets/s now</div>
        <div><b>${numberText(total.packets)}</b> packets since ${timeText(since)}</div>
      </div>
      <p class="muted">
        Packets in ${numberText(step / 60)} minutes, at most ${numberText(Math.max(0, ...total.series))}:
      </p>
      ${dayChart(drops, count)}
      ${
        rules.length === 0
          ? html`<p class="muted">Nothing was dropped or rejected since ${timeText(since)}.</p>`
          : html`<div class="columns">
            <section aria-labelledby="rules">
              <h2 id="rules">By rule</h2>
              ${ruleTable(rules, count)} ${leftOut(rulesLeftOut, 'rule')}
            </section>
            <section aria-labelledby="nodes">
              <h2 id="nodes">By node</h2>
              ${nodeTable(nodes, count)} ${leftOut(nodesLeftOut, 'node')}
            </section>
          </div>`
      }
    `;
  }

  #denied({ asked, peers, isCut, time }: DeniedPeers): TemplateResult {
    return html`
      <p class="muted">
        Of the nodes' flow inventories as of ${timeText(time)}: only rules with <code>enableLogging: true</code> leave a
        peer.
      </p>
      ${askedText(asked)}
      ${
        peers.length === 0 ? html`<p class="muted">These nodes know of no denied peer.</p>` : peerTable(peers)
      }
      ${isCut ? html`<p class="muted">There are more; these have the most connections.</p>` : nothing}
    `;
  }
}

function ruleNow({ rule, isAllowedNow }: DeniedPeers['peers'][number]): TemplateResult {
  const name = rule === null ? html`<span class="muted">no rule</span>` : html`${rule.policy}/${rule.rule}`;
  return isAllowedNow ? html`${name} <span class="good">allowed now</span>` : name;
}

function dayChart({ total, step, lastStep }: Drops, count: number): TemplateResult {
  const end = Date.parse(lastStep) + step * 1000;
  const startOf = (index: number): number => end - (total.series.length - index) * step * 1000;
  return stepChart({
    values: total.series,
    count,
    label: `Packets over a day; at most ${countText(Math.max(0, ...total.series), 'packet')} in ${step / 60} minutes`,
    title: (index, value) => `${CLOCK.format(startOf(index))}: ${countText(value, 'packet')}`,
    labels: HOURS.slice(1, -1).map((hours) => ({
      at: hours / 24,
      text: CLOCK.format(end - (24 - hours) * 3_600_000),
    })),
  });
}

function peerTable(peers: DeniedPeers['peers']): TemplateResult {
  return dataTable({
    name: { id: 'peers' },
    rows: peers,
    columns: [
      { title: 'Peer', style: 'name', cell: ({ peer }) => peer },
      { title: 'Direction', style: 'short', cell: ({ direction }) => direction },
      { title: 'Service', style: 'short', cell: protocolAndPort },
      { title: 'Verdict', cell: ({ verdict }) => verdictText(verdict) },
      { title: 'Rule now', style: 'name', cell: ruleNow },
      { title: 'Connections', style: 'number', cell: ({ connections }) => numberText(connections) },
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

function ruleTable(rules: readonly (DropCount & DropRule)[], count: number): TemplateResult {
  return dataTable({
    name: { id: 'rules' },
    rows: rules,
    columns: [
      { title: 'Policy/rule', style: 'name', cell: ({ policy, rule }) => `${policy}/${rule}` },
      { title: 'Action', cell: ({ action }) => verdictText(action) },
      { title: 'Direction', style: 'short', cell: ({ direction }) => direction },
      ...countColumns(count),
    ],
  });
}

function nodeTable(nodes: Drops['nodes'], count: number): TemplateResult {
  return dataTable({
    name: { id: 'nodes' },
    rows: nodes,
    columns: [{ title: 'Node', style: 'name', cell: ({ node }) => node }, ...countColumns(count)],
  });
}

function countColumns(count: number): readonly Column<DropCount>[] {
  return [
    { title: 'Packets/s', style: 'number', cell: (row) => rateText(row.packetsPerSecond) },
    { title: 'Packets', style: 'number', cell: ({ packets }) => numberText(packets) },
    { title: 'Over a day', cell: ({ series }) => sparkline(series, count) },
  ];
}

function leftOut(count: number, noun: string): TemplateResult | typeof nothing {
  return count === 0
    ? nothing
    : html`<p class="muted">${countText(count, `more ${noun}`)} with fewer packets.</p>`;
}
