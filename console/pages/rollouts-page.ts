import type { Overview } from '../../apis/console.ts';
import type { RolloutCommand, RolloutProgress, RolloutState } from '../../apis/rollout.ts';
import '../view/data-table.ts';
import { css, html, LitElement, nothing, type TemplateResult } from 'lit';
import { toHash } from '../view/links.ts';
import { markOf, markTemplate, ROLLOUT_MARKS } from '../view/marks.ts';
import { BASE_STYLES, styleOf } from '../view/styles.ts';
import { numberText } from '../view/texts.ts';

/** Nodes that are named; the status has no more than 20. */
const MOST_WAITING = 10;

const DOES: Readonly<Record<RolloutCommand, string>> = {
  pause: 'Begin no further step',
  resume: 'Go on; nodes that have failed so far do not count again',
  undo: 'Put the last completed version in force on all nodes',
  promote: 'Put the new version in force on all nodes at once',
};
/** Commands that make sense in a state. */
const COMMANDS: Readonly<Record<RolloutState, readonly RolloutCommand[]>> = {
  Progressing: ['pause', 'undo', 'promote'],
  Paused: ['resume', 'undo', 'promote'],
  Completed: [],
  Undone: ['promote'],
};

/** Rollouts of policies over nodes, with the lines for a shell that change them. */
export class RolloutsPage extends LitElement {
  static override properties = { overview: { attribute: false } };
  static override styles = [
    BASE_STYLES,
    css`
      article {
        border: 1px solid var(--line);
        border-radius: 6px;
        padding: 14px 16px;
        margin-bottom: 16px;
        max-width: 1100px;
      }
      h2 {
        margin: 0;
        font-size: 14px;
        overflow-wrap: anywhere;
      }
      .title {
        display: flex;
        flex-wrap: wrap;
        gap: 4px 16px;
        align-items: baseline;
        margin-bottom: 10px;
      }
      .title > * {
        min-width: 0;
      }
      .bar {
        position: relative;
        height: 6px;
        border-radius: 3px;
        background: var(--line-strong);
        overflow: hidden;
        margin-bottom: 6px;
      }
      .bar span {
        position: absolute;
        inset: 0 auto 0 0;
        background: var(--warn);
      }
      .bar span.confirmed {
        background: var(--good);
      }
      ul {
        margin: 0 0 10px;
        padding-inline-start: 18px;
      }
      dl {
        display: grid;
        grid-template-columns: fit-content(200px) minmax(0, 1fr);
        gap: 8px 16px;
        align-items: center;
        margin: 12px 0 0;
      }
      dd {
        margin: 0;
      }
    `,
  ];
  declare overview: Overview;

  protected override render(): TemplateResult {
    const rollouts = Map.groupBy(this.overview.rollouts, ({ policy, group }) =>
      group === null ? `policy ${policy}` : `group ${group}`,
    );
    return html`
      <div class="head">
        <h1>Rollouts</h1>
        <p>New versions that go over the nodes in steps. This page changes nothing: copy a line for a shell.</p>
      </div>
      ${
        rollouts.size === 0
          ? html`<p class="muted">No policy has a rollout (<code>spec.rollout</code>).</p>`
          : [...rollouts.values()].map(article)
      }
    `;
  }
}

/** @param policies those that have the rollout */
function article(policies: readonly RolloutProgress[]): TemplateResult | typeof nothing {
  const [rollout] = policies;
  if (rollout === undefined) return nothing;
  const { state, pausedBy, progress, message, failed, silent, waiting } = rollout;
  // A newer server may have other states.
  const commands = Object.hasOwn(COMMANDS, state) ? COMMANDS[state] : [];
  const title = policies.map(({ policy }) => policy).join(', ');
  const left = waiting.length - MOST_WAITING;
  return html`
    <article aria-label=${`Rollout of ${title}`}>
      <div class="title">
        <h2>${title}</h2>
        ${markTemplate(markOf(ROLLOUT_MARKS, state))}
        <span class="muted">${progress}${pausedBy === null ? '' : `, by ${pausedBy === 'Command' ? 'a command' : 'failures'}`}</span>
      </div>
      ${progressBar(rollout)}
      <p>${message}</p>
      <ul>
        ${policies.map(
          ({ policy, from, to }) =>
            html`<li>
              <a href=${toHash('in-force', { filter: policy })}>${policy}</a>:
              ${from === 0 ? 'no version' : `version ${from}`} → version ${to}
            </li>`,
        )}
      </ul>
      ${named('Failed', 'bad', failed)} ${named('Not waited for', 'warn', silent)}
      ${
        waiting.length === 0
          ? nothing
          : html`<p class="muted">
            Waiting for ${waiting.slice(0, MOST_WAITING).join(', ')}${left > 0 ? ` and ${numberText(left)} more` : ''}.
          </p>`
      }
      ${
        commands.length === 0
          ? nothing
          : html`<dl>
            ${commands.map(
              (command) =>
                html`<dt>${DOES[command]}</dt>
                  <dd><copy-line .line=${`kubectl nodewall rollout ${command} ${rollout.policy}`}></copy-line></dd>`,
            )}
          </dl>`
      }
    </article>
  `;
}

function progressBar({ nodes, updated, confirmed }: RolloutProgress): TemplateResult | typeof nothing {
  if (nodes === null || nodes === 0) return nothing;
  const share = (count: number | null): string => `${(100 * (count ?? 0)) / nodes}%`;
  return html`
    <div class="bar" aria-hidden="true">
      <span ${styleOf({ width: share(updated) })}></span>
      <span class="confirmed" ${styleOf({ width: share(confirmed) })}></span>
    </div>
  `;
}

function named(
  title: string,
  tone: string,
  nodes: RolloutProgress['failed'],
): TemplateResult | typeof nothing {
  if (nodes.length === 0) return nothing;
  return html`<p class=${tone}>${title}:</p>
    <ul>
      ${nodes.map(({ node, reason }) => html`<li><b>${node}</b>: ${reason}</li>`)}
    </ul>`;
}
