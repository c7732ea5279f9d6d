import { html, type TemplateResult } from 'lit';
import type { CellState } from '../../apis/console.ts';
import type { NodePhase } from '../../apis/node-report.ts';
import type { PolicyPhase } from '../../apis/policy-status.ts';
import type { RolloutState } from '../../apis/rollout.ts';

/** good: nothing to do. quiet: as wanted, and not in force. warn: on its way, or look. bad: act. */
type Tone = 'good' | 'quiet' | 'warn' | 'bad';

/** A state by its sign, a word, and a colour that says the same again. */
export interface Mark {
  readonly sign: string;
  readonly tone: Tone;
  readonly words: string;
}

/** Marks of a node and a policy. */
export const CELL_MARKS: Readonly<Record<Exclude<CellState, 'NotApplied'>, Mark>> = {
  InForce: { sign: '●', tone: 'good', words: 'in force' },
  Pending: { sign: '◔', tone: 'warn', words: 'not in force yet' },
  Trying: { sign: '◑', tone: 'warn', words: 'in force, not confirmed yet' },
  OtherVersion: { sign: '≠', tone: 'warn', words: 'another version' },
  Failed: { sign: '✕', tone: 'bad', words: 'failed' },
  RolledBack: { sign: '↺', tone: 'bad', words: 'rolled back' },
  NotEnforced: { sign: '⊘', tone: 'bad', words: 'not enforced' },
  Partly: { sign: '◐', tone: 'warn', words: 'in force in part' },
  Off: { sign: '○', tone: 'bad', words: 'node off' },
  Disabled: { sign: '○', tone: 'quiet', words: 'disabled' },
  NotFollowing: { sign: '!', tone: 'bad', words: 'node follows no changes' },
  Silent: { sign: '?', tone: 'bad', words: 'node silent' },
  Unknown: { sign: '¿', tone: 'bad', words: 'node never reported' },
};

export const NODE_MARKS: Readonly<Record<NodePhase, Mark>> = {
  Enforced: { sign: '●', tone: 'good', words: 'Enforced' },
  Pending: { sign: '◔', tone: 'warn', words: 'Pending' },
  Failing: { sign: '✕', tone: 'bad', words: 'Failing' },
  NotFollowing: { sign: '!', tone: 'bad', words: 'NotFollowing' },
  Off: { sign: '○', tone: 'bad', words: 'Off' },
  Disabled: { sign: '○', tone: 'quiet', words: 'Disabled' },
  Silent: { sign: '?', tone: 'bad', words: 'Silent' },
  Unknown: { sign: '¿', tone: 'bad', words: 'Unknown' },
};

export const POLICY_MARKS: Readonly<Record<PolicyPhase, Mark>> = {
  Pending: { sign: '◔', tone: 'warn', words: 'Pending' },
  Realizing: { sign: '◑', tone: 'warn', words: 'Realizing' },
  Trying: { sign: '◕', tone: 'warn', words: 'Trying' },
  Realized: { sign: '●', tone: 'good', words: 'Realized' },
  Failed: { sign: '✕', tone: 'bad', words: 'Failed' },
  RolledBack: { sign: '↺', tone: 'bad', words: 'RolledBack' },
  NotEnforced: { sign: '⊘', tone: 'bad', words: 'NotEnforced' },
  NoNodes: { sign: '○', tone: 'quiet', words: 'NoNodes' },
  Invalid: { sign: '✕', tone: 'bad', words: 'Invalid' },
  Disabled: { sign: '○', tone: 'quiet', words: 'Disabled' },
};

export const ROLLOUT_MARKS: Readonly<Record<RolloutState, Mark>> = {
  Progressing: { sign: '◑', tone: 'warn', words: 'Progressing' },
  Paused: { sign: '‖', tone: 'bad', words: 'Paused' },
  Completed: { sign: '●', tone: 'good', words: 'Completed' },
  Undone: { sign: '↺', tone: 'quiet', words: 'Undone' },
};

/** A word that a newer server sends is shown as it is. */
export function markOf(marks: Readonly<Record<string, Mark>>, state: string): Mark {
  const mark = Object.hasOwn(marks, state) ? marks[state] : undefined;
  return mark ?? { sign: '?', tone: 'warn', words: state };
}

export function markTemplate({ sign, tone, words }: Mark): TemplateResult {
  return html`<span class="mark ${tone}"><span class="sign" aria-hidden="true">${sign}</span
    >${words}</span
  >`;
}

/** A verdict or an action in its colour. */
export function verdictText(verdict: string): TemplateResult {
  const tone = verdict === 'Allow' ? 'good' : verdict === 'Pass' ? 'quiet' : 'bad';
  return html`<span class="mark ${tone}">${verdict}</span>`;
}
