import { css, noChange } from 'lit';
import { Directive, directive, type ElementPart } from 'lit/directive.js';

/** For every page and element: headings, tables, controls, focus. */
export const BASE_STYLES = css`
  :host {
    display: block;
    overflow-wrap: break-word;
  }
  * {
    box-sizing: border-box;
  }
  h1 {
    font-size: 18px;
    font-weight: 600;
    letter-spacing: -0.01em;
    margin: 0;
  }
  h2 {
    font-size: 13px;
    font-weight: 600;
    margin: 24px 0 8px;
  }
  p {
    margin: 0 0 8px;
    max-width: 90ch;
  }
  a {
    color: var(--accent);
    text-underline-offset: 2px;
    text-decoration-thickness: 1px;
  }
  nav a {
    text-decoration: none;
  }
  :focus-visible {
    outline: 2px solid var(--accent);
    outline-offset: 1px;
    border-radius: 3px;
  }
  h1:focus {
    outline: none;
  }
  ul {
    margin: 0 0 8px;
    padding-inline-start: 18px;
  }
  code,
  pre {
    font-family: var(--mono);
    font-size: 12px;
  }
  .muted {
    color: var(--muted);
  }
  .bad {
    color: var(--bad);
  }
  .warn {
    color: var(--warn);
  }
  .good {
    color: var(--good);
  }
  .quiet {
    color: var(--muted);
  }
  .mark {
    white-space: nowrap;
  }
  .sign {
    display: inline-block;
    width: 1em;
    margin-inline-end: 5px;
    font-family: var(--mono);
  }
  .failure,
  .stale {
    border: 1px solid var(--line);
    border-inline-start: 3px solid var(--bad);
    border-radius: 5px;
    padding: 12px 16px;
    margin: 0 0 16px;
    max-width: 90ch;
  }
  .failure h2 {
    margin: 0 0 4px;
    font-size: 14px;
  }
  .failure p,
  .failure copy-line {
    margin-bottom: 10px;
  }
  .stale {
    padding: 6px 12px;
  }
  .head {
    display: flex;
    flex-wrap: wrap;
    align-items: baseline;
    gap: 4px 16px;
    margin-bottom: 16px;
  }
  .head p {
    margin: 0;
    color: var(--muted);
  }
  .hidden {
    position: absolute;
    width: 1px;
    height: 1px;
    overflow: hidden;
    clip-path: inset(50%);
    white-space: nowrap;
  }
`;

export const TABLE_STYLES = css`
  .scroll {
    position: relative;
    overflow-x: auto;
    border: 1px solid var(--line);
    border-radius: 6px;
  }
  table {
    border-collapse: collapse;
    width: 100%;
  }
  th,
  td {
    text-align: start;
    padding: 5px 12px;
    vertical-align: top;
    font-weight: 400;
  }
  thead th {
    font-size: 12px;
    font-weight: 500;
    color: var(--muted);
    background: var(--panel);
    white-space: nowrap;
    border-bottom: 1px solid var(--line);
  }
  tbody tr + tr > * {
    border-top: 1px solid var(--line);
  }
  tbody tr:hover > * {
    background: var(--panel);
  }
  tbody th {
    font-weight: 500;
  }
  .name {
    overflow-wrap: anywhere;
    min-width: 12ch;
  }
  .scroll + p {
    margin-top: 8px;
  }
  .number {
    text-align: end;
    white-space: nowrap;
  }
  .short {
    white-space: nowrap;
  }
`;

export const CONTROLS = css`
  input,
  select,
  textarea,
  button {
    font: inherit;
    color: inherit;
    background: var(--ground);
    border: 1px solid var(--line-strong);
    border-radius: 5px;
    padding: 4px 8px;
    min-height: 28px;
  }
  textarea {
    font-family: var(--mono);
    font-size: 12px;
    width: 100%;
    resize: vertical;
  }
  button {
    cursor: pointer;
    background: var(--panel);
    padding: 4px 12px;
  }
  button:hover {
    border-color: var(--muted);
  }
  button.main {
    background: var(--accent);
    border-color: var(--accent);
    color: var(--ground);
    font-weight: 500;
  }
  button[disabled] {
    opacity: 0.6;
    cursor: default;
  }
  ::placeholder {
    color: var(--muted);
    opacity: 1;
  }
  label.check {
    display: inline-flex;
    align-items: center;
    gap: 6px;
  }
  label.check input {
    min-height: 0;
    margin: 0;
    accent-color: var(--accent);
  }
  .tools {
    display: flex;
    flex-wrap: wrap;
    align-items: center;
    gap: 8px 16px;
    margin: 0 0 12px;
  }
  .tools input[type='search'] {
    width: 32ch;
    max-width: 100%;
  }
`;

/** Properties of an element's style by their names in JavaScript; '' removes one. */
type Styles = Readonly<Partial<Record<'height' | 'width' | 'transform', string>>>;

class StyleOf extends Directive {
  override render(_styles: Styles): unknown {
    return noChange;
  }

  override update({ element }: ElementPart, [styles]: [Styles]): unknown {
    Object.assign((element as HTMLElement).style, styles);
    return noChange;
  }
}

/**
 * Sets an element's style: `<div ${styleOf({ height: '3px' })}>`. The Content-Security-Policy
 * forbids the attribute, which Lit's styleMap writes.
 */
export const styleOf = directive(StyleOf);
