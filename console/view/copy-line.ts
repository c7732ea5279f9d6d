import { css, html, LitElement } from 'lit';
import { BASE_STYLES, CONTROLS } from './styles.ts';

/** A line for a shell, with a button that copies it. */
export class CopyLine extends LitElement {
  static override properties = { line: {}, copied: { state: true } };
  static override styles = [
    BASE_STYLES,
    CONTROLS,
    css`
      :host {
        display: flex;
        align-items: stretch;
        max-width: 100%;
        border: 1px solid var(--line);
        border-radius: 5px;
        overflow: hidden;
      }
      code {
        flex: 1;
        min-width: 0;
        padding: 5px 10px;
        overflow-x: auto;
        white-space: pre;
        background: var(--panel);
      }
      button {
        border: 0;
        border-inline-start: 1px solid var(--line);
        border-radius: 0;
        background: var(--ground);
      }
      :focus-visible {
        outline-offset: -2px;
      }
    `,
  ];
  declare line: string;
  declare copied: boolean;

  constructor() {
    super();
    this.line = '';
    this.copied = false;
  }

  protected override render(): unknown {
    return html`<code tabindex="0" role="textbox" aria-readonly="true" aria-label="Command">${this.line}</code>
      <button @click=${this.#copy} aria-label=${`Copy: ${this.line}`}>
        ${this.copied ? 'Copied' : 'Copy'}
      </button>`;
  }

  /** Where the browser gives no access to the clipboard, the text is selected for the keyboard. */
  readonly #copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(this.line);
      this.copied = true;
    } catch {
      const code = this.renderRoot.querySelector('code');
      if (code !== null) getSelection()?.selectAllChildren(code);
    }
  };
}
customElements.define('copy-line', CopyLine);
