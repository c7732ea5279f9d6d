import type { Problem } from '../objects.ts';
import type { FieldPath } from '../schema/json-schema.ts';

export type { FieldPath } from '../schema/json-schema.ts';

/** A problem before its place in a file is known. */
export interface ObjectProblem {
  readonly severity: Problem['severity'];
  readonly path: FieldPath;
  readonly message: string;
}

/** What a check finds goes here: every problem of an object, in the order of its fields. */
export interface Findings {
  readonly problems: readonly ObjectProblem[];
  error(path: FieldPath, message: string): void;
  warning(path: FieldPath, message: string): void;
  notice(path: FieldPath, message: string): void;
}

/** More than this of one object says no more; the rest is counted. */
const MOST_PROBLEMS = 100;

export function findings(): Findings {
  const problems: ObjectProblem[] = [];
  const add = (severity: Problem['severity'], path: FieldPath, message: string): void => {
    if (problems.length < MOST_PROBLEMS) problems.push({ severity, path, message });
    else if (problems.length === MOST_PROBLEMS) {
      problems.push({
        severity: 'error',
        path: [],
        message: `more than ${MOST_PROBLEMS} problems, the rest is left out`,
      });
    }
  };
  return {
    problems,
    error: (path, message) => add('error', path, message),
    warning: (path, message) => add('warning', path, message),
    notice: (path, message) => add('notice', path, message),
  };
}

export function hasError(problems: readonly { readonly severity: Problem['severity'] }[]): boolean {
  return problems.some((problem) => problem.severity === 'error');
}

/**
 * `spec.ingress[0].ports[0].endPort`; keys that are no plain word are quoted:
 * `matchLabels["example.com/role"]`.
 */
export function formatPath(path: FieldPath): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (/^[A-Za-z_][\w-]*$/.test(step)) text += text === '' ? step : `.${step}`;
    else text += `[${showText(step)}]`;
  }
  return text;
}

/**
 * One line: `FILE:LINE: KIND/NAME: spec.ingress[0].ports[0].endPort: what is wrong`, parts that are
 * not known left out. What is no error says so before the message.
 */
export function formatProblem(problem: Problem): string {
  const { severity, file, line, kind, name, path, message } = problem;
  const place = line === 0 ? file : `${file}:${line}`.replace(/^:/, '');
  const object = [kind, name].filter((part) => part !== '').join('/');
  const text = severity === 'error' ? message : `${severity}: ${message}`;
  return [place, object, path, text]
    .map(plain)
    .filter((part) => part !== '')
    .join(': ');
}

const MOST_CHARACTERS = 600;

/**
 * File names, rejected names and what a parser quotes are anything; a line of output stays one
 * line.
 */
function plain(text: string): string {
  const short = text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 1)}…` : text;
  return short.toWellFormed().replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '\ufffd');
}

/** A value as it may stand in a message: short, on one line, no control characters. */
export function show(value: unknown): string {
  if (value === null) return 'null (nothing is written there)';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'an object with fields';
  return typeof value === 'string' ? showText(value) : String(value);
}

export function showText(text: string): string {
  const short = text.length > 80 ? `${text.slice(0, 77)}…` : text;
  return JSON.stringify(short.toWellFormed()).replace(
    /[\u007f-\u009f\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
