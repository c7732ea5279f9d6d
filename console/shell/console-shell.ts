import { css, html, LitElement, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { OVERVIEW_WATCH } from '../../apis/console.ts';
import { systemClock } from '../../lib/process/clock.ts';
import { openStream } from '../data/api.ts';
import { type LiveConnection, LiveOverview } from '../data/live-overview.ts';
import { AuditPage } from '../pages/audit-page.ts';
import { DropsPage } from '../pages/drops-page.ts';
import { ExplainPage } from '../pages/explain-page.ts';
import { InForcePage } from '../pages/in-force-page.ts';
import { LintPage } from '../pages/lint-page.ts';
import { PreviewPage } from '../pages/preview-page.ts';
import { RolloutsPage } from '../pages/rollouts-page.ts';
import { type PageName, type PageRoute, toHash, toPageRoute } from '../view/links.ts';
import { failureBlock } from '../view/loaded.ts';
import { BASE_STYLES, CONTROLS } from '../view/styles.ts';
import { timeText } from '../view/texts.ts';

for (const [name, page] of Object.entries({
  'in-force-page': InForcePage,
  'drops-page': DropsPage,
  'explain-page': ExplainPage,
  'preview-page': PreviewPage,
  'audit-page': AuditPage,
  'rollouts-page': RolloutsPage,
  'lint-page': LintPage,
}))
  customElements.define(name, page);

const TITLES: Readonly<Record<PageName, string>> = {
  'in-force': 'In force',
  drops: 'Drops',
  explain: 'Explain',
  preview: 'Preview',
  audit: 'Audit',
  rollouts: 'Rollouts',
  lint: 'Lint',
};

/** The frame of all pages: where the reader is, and whether what is shown is live. */
export class ConsoleShell extends LitElement {
  static override properties = { route: { state: true } };
  static override styles = [
    BASE_STYLES,
    CONTROLS,
    css`
      header {
        position: sticky;
        top: 0;
        z-index: 3;
        display: flex;
        flex-wrap: wrap;
        align-items: center;
        gap: 0 24px;
        padding: 0 24px;
        min-height: 44px;
        background: var(--panel);
        border-bottom: 1px solid var(--line);
      }
      .brand {
        font-weight: 650;
        letter-spacing: -0.01em;
      }
      nav {
        display: flex;
        flex-wrap: wrap;
        align-self: stretch;
      }
      nav a {
        display: flex;
        align-items: center;
        padding: 0 11px;
        min-height: 44px;
        color: var(--muted);
        border-bottom: 2px solid transparent;
      }
      nav a:hover {
        color: var(--text);
      }
      nav a[aria-current] {
        color: var(--text);
        font-weight: 550;
        border-bottom-color: var(--accent);
      }
      .live {
        margin-inline-start: auto;
        display: flex;
        align-items: center;
        gap: 8px;
      }
      .skip {
        position: absolute;
        inset-inline-start: 8px;
        top: -60px;
        padding: 8px 12px;
        background: var(--ground);
        border: 1px solid var(--line-strong);
        z-index: 4;
      }
      .skip:focus {
        top: 6px;
      }
      main:focus {
        outline: none;
      }
      main {
        padding: 20px 24px 48px;
        max-width: 1680px;
      }
      .notice {
        padding: 6px 24px;
        background: var(--warn-ground);
        color: var(--warn);
        border-bottom: 1px solid var(--line);
      }
    `,
  ];
  declare route: PageRoute;
  readonly #live = new LiveOverview({
    open: (signal) => openStream(`../${OVERVIEW_WATCH}`, signal),
    clock: systemClock,
    random: Math.random,
  });

  constructor() {
    super();
    this.route = toPageRoute(location.hash);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    addEventListener('hashchange', this.#onHash);
    this.#live.addEventListener('change', this.#onChange);
    this.#live.start();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    removeEventListener('hashchange', this.#onHash);
    this.#live.removeEventListener('change', this.#onChange);
    this.#live.stop();
  }

  readonly #onChange = (): void => this.requestUpdate();
  readonly #onHash = (): void => {
    this.route = toPageRoute(location.hash);
  };
  readonly #retry = (): void => this.#live.start();

  protected override updated(changed: PropertyValues<this>): void {
    document.title = `${TITLES[this.route.page]} · nodewall`;
    const before = changed.get('route');
    // Readers by ear and by keyboard begin at the new page.
    if (before !== undefined && before.page !== this.route.page)
      this.renderRoot.querySelector<HTMLElement>('main')?.focus({ preventScroll: true });
  }

  protected override render(): TemplateResult {
    return html`
      <header>
        <a class="skip" href=${location.hash || '#/'} @click=${this.#skip}>Skip to the page</a>
        <span class="brand">nodewall</span>
        <nav aria-label="Pages">
          ${Object.entries(TITLES).map(
            ([page, title]) =>
              html`<a href=${toHash(page as PageName)} aria-current=${page === this.route.page ? 'page' : nothing}
                >${title}</a
              >`,
          )}
        </nav>
        <div class="live" role="status">${this.#connectionText(this.#live.connection)}</div>
      </header>
      ${this.#notices()}
      <main tabindex="-1">${this.#page()}</main>
    `;
  }

  readonly #skip = (event: Event): void => {
    event.preventDefault();
    this.renderRoot.querySelector('main')?.focus();
  };

  #connectionText(connection: LiveConnection): TemplateResult {
    const { overview } = this.#live;
    switch (connection.kind) {
      case 'connecting':
        return html`<span class="muted">Connecting…</span>`;
      case 'live':
        return html`<span class="good" aria-hidden="true">●</span>
          <span title=${`Revision ${overview?.revision ?? ''}, ${timeText(overview?.time ?? '')}`}>
            Live · cluster
          </span>`;
      case 'waiting':
        return html`<span class="bad" aria-hidden="true">○</span>
          <span>Not live: ${connection.error.message}. Trying again within ${connection.seconds} s.</span>
          <button @click=${this.#retry}>Try now</button>`;
    }
  }

  #notices(): TemplateResult {
    const { overview, connection } = this.#live;
    const notices = [
      ...(overview !== null && connection.kind === 'waiting'
        ? [`What you see here is of ${timeText(overview.time)}.`]
        : []),
      ...(overview?.isEnabled === false
        ? ['The feature gate NodeNetworkPolicy is off: no rules are in force on any node.']
        : []),
      ...(overview?.remark ? [overview.remark] : []),
    ];
    return html`${notices.map((text) => html`<p class="notice" role="status">${text}</p>`)}`;
  }

  #page(): TemplateResult {
    const { page, parameters } = this.route;
    const live = this.#live;
    const { overview, connection } = live;
    const needsOverview = page === 'in-force' || page === 'rollouts';
    if (needsOverview && overview === null) {
      return html`<h1>${TITLES[page]}</h1>
        ${
          connection.kind === 'waiting'
            ? failureBlock(connection.error, this.#retry)
            : html`<p class="muted" role="status">Loading…</p>`
        }`;
    }
    const now = live.now();
    switch (page) {
      case 'in-force':
        return html`<in-force-page .overview=${overview} .now=${now} .parameters=${parameters}></in-force-page>`;
      case 'rollouts':
        return html`<rollouts-page .overview=${overview}></rollouts-page>`;
      case 'drops':
        return html`<drops-page></drops-page>`;
      case 'explain':
        return html`<explain-page .nodes=${overview?.nodes ?? []} .parameters=${parameters}></explain-page>`;
      case 'preview':
        return html`<preview-page></preview-page>`;
      case 'audit':
        return html`<audit-page .parameters=${parameters}></audit-page>`;
      case 'lint':
        return html`<lint-page></lint-page>`;
    }
  }
}
