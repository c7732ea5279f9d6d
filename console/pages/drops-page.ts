import { css, html, LitElement, nothing, svg, type TemplateResult } from 'lit';
import type { DeniedPeers, DropCount, DropRule, Drops, FlowOnNodes } from '../../apis/console-documents.ts';
import { getDocument } from '../data/api.ts';
import { type Column, dataTable } from '../view/data-table.ts';
import { explainLink } from '../view/links.ts';
import { askedText, LoadedDocument } from '../view/loaded.ts';
import { verdictText } from '../view/marks.ts';
import { BASE_STYLES, CONTROLS, TABLE_STYLES } from '../view/styles.ts';
import { countText, namesText, numberText, protocolAndPort, rateText, timeText } from '../view/texts.ts';

/** A chart's own units; the page scales it. */
const WIDTH = 960;
const HEIGHT = 120;
const BASE = 100;

interface Steps {
  /** Oldest first; the last one is still being filled. */
  readonly values: readonly number[];
  /** How many steps the axis has; values before those that there are were not counted. */
  readonly count: number;
  /** Under the axis, at its share of the width from 0 to 1. */
  readonly labels: readonly { readonly at: number; readonly text: string }[];
  /** A bar's text, for a pointer. */
  readonly title: (index: number, value: number) => string;
  /** For those who do not see it. */
  readonly label: string;
}

/**
 * Bars of steps of time, with the highest value beside its line. Drawn by the page itself, so that
 * it follows the colours of the page and needs no exception from the Content-Security-Policy.
 */
function stepChart({ values, count, labels, title, label }: Steps): TemplateResult {
  const top = Math.max(1, ...values);
  const width = WIDTH / count;
  const offset = count - values.length;
  return svg`<svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${label}>
    <line class="axis" x1="0" x2=${WIDTH} y1=${BASE} y2=${BASE}></line>
    ${values.map((value, i) => {
      const height = value === 0 ? 0 : Math.max(1, (value / top) * (BASE - 8));
      const x = (offset + i) * width;
      return svg`<rect class="bar" x=${x} y=${BASE - height} width=${Math.max(1, width - 0.6)} height=${height}>
        <title>${title(i, value)}</title>
      </rect>`;
    })}
    ${labels.map(
      ({ at, text }) =>
        svg`<text x=${Math.round(at * WIDTH)} y=${HEIGHT - 4} text-anchor="middle">${text}</text>`,
    )}
  </svg>` as TemplateResult;
}

/** A small picture beside the numbers that it is of, which are text. */
function sparkline(values: readonly number[], count: number): TemplateResult {
  const top = Math.max(1, ...values);
  // Many steps have a few pixels each: the highest of each group.
  const columns = 60;
  const size = Math.ceil(count / columns);
  const padded = [...Array.from({ length: Math.max(0, count - values.length) }, () => 0), ...values];
  const heights = Array.from({ length: Math.ceil(padded.length / size) }, (_, i) =>
    Math.max(0, ...padded.slice(i * size, (i + 1) * size)),
  );
  const path = heights
    .map((value, i) => (value === 0 ? '' : `M${2 * i + 1} 18V${(17 - (16 * value) / top).toFixed(1)}`))
    .join('');
  return svg`<svg class="spark" viewBox="0 0 ${2 * heights.length} 18" width="120" height="18" aria-hidden="true">
    <path d=${path}></path>
  </svg>` as TemplateResult;
}

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

  #denied({ asked, flows, isCut, time }: DeniedPeers): TemplateResult {
    return html`
      <p class="muted">
        Of the nodes' flow inventories as of ${timeText(time)}: only rules with <code>enableLogging: true</code> leave a
        peer.
      </p>
      ${askedText(asked)}
      ${
        flows.length === 0 ? html`<p class="muted">These nodes know of no denied peer.</p>` : peerTable(flows)
      }
      ${isCut ? html`<p class="muted">There are more; these have the most connections.</p>` : nothing}
    `;
  }
}

function ruleNow({ decision }: FlowOnNodes): TemplateResult {
  const name =
    decision?.rule == null
      ? html`<span class="muted">no rule</span>`
      : html`${decision.policy}/${decision.rule}`;
  return decision?.verdict === 'Allow' ? html`${name} <span class="good">allowed now</span>` : name;
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

function peerTable(flows: readonly FlowOnNodes[]): TemplateResult {
  return dataTable({
    name: { id: 'peers' },
    rows: flows,
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
        cell: (flow) => explainLink(flow, flow.nodes[0]),
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
