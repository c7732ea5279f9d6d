import { printable } from '../../lib/sharing/safe-text.ts';
import type { Problem } from '../objects.ts';
import type { FieldPath } from '../schema/json-schema.ts';

export type { FieldPath } from '../schema/json-schema.ts';

/** A problem whose place in a file is not known yet. */
export interface ObjectProblem {
  readonly severity: Problem['severity'];
  readonly path: FieldPath;
  readonly message: string;
  /** It ends by itself when an object that this one names is created, or may be used. */
  readonly isMissing?: true;
  /** It is about all objects of the kind: those of one state have it once. */
  readonly perKind?: true;
}

/** Collects the problems of one object, in the order of its fields. */
export interface Findings {
  readonly problems: readonly ObjectProblem[];
  error(path: FieldPath, message: string): void;
  warning(path: FieldPath, message: string, more?: Pick<ObjectProblem, 'perKind'>): void;
  notice(path: FieldPath, message: string, more?: Pick<ObjectProblem, 'perKind'>): void;
}

/** Limit of problems per object; one more message says that the rest is left out. */
const MOST_PROBLEMS = 100;

export function findings(): Findings {
  const problems: ObjectProblem[] = [];
  const add = (
    severity: Problem['severity'],
    path: FieldPath,
    message: string,
    more: Pick<ObjectProblem, 'perKind'> = {},
  ): void => {
    if (problems.length < MOST_PROBLEMS) problems.push({ severity, path, message, ...more });
    else if (problems.length === MOST_PROBLEMS) {
      problems.push({
        severity: 'error',
        path: [],
        message: `has more than ${MOST_PROBLEMS} problems; the rest is not listed`,
      });
    }
  };
  return {
    problems,
    error: (path, message) => add('error', path, message),
    warning: (path, message, more) => add('warning', path, message, more),
    notice: (path, message, more) => add('notice', path, message, more),
  };
}

export function hasError(problems: readonly { readonly severity: Problem['severity'] }[]): boolean {
  return problems.some((problem) => problem.severity === 'error');
}

/**
 * Formats a path as `spec.ingress[0].ports[0].endPort`. Keys that are not plain words are quoted:
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

/** Stands for standard input in place of a path. */
export const STANDARD_INPUT = '-';

/** A path as messages name it. */
export function fileText(path: string): string {
  return path === STANDARD_INPUT ? 'standard input' : path;
}

/**
 * Formats a problem as one line, `FILE:LINE: KIND/NAME: spec.ingress[0].ports[0].endPort: MESSAGE`,
 * without the parts that are not known. Problems other than errors name their severity before the
 * message.
 */
export function formatProblem(problem: Problem): string {
  const { severity, file, line, kind, name, path, message } = problem;
  const from = fileText(file);
  const place = line === 0 ? from : `${from}:${line}`.replace(/^:/, '');
  const object = [kind, name].filter((part) => part !== '').join('/');
  const text = severity === 'error' ? message : `${severity}: ${message}`;
  return [place, object, path, text]
    .map(plain)
    .filter((part) => part !== '')
    .join(': ');
}

const MOST_CHARACTERS = 600;

/**
 * Escapes line breaks and control characters: file names, rejected names and text quoted by a
 * parser may hold any character, and the output must stay one line.
 */
function plain(text: string): string {
  const short = text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 1)}…` : text;
  return printable(short.toWellFormed());
}

/** Formats a value for a message: short, on one line, without control characters. */
export function show(value: unknown): string {
  if (value === null) return 'null (the field has no value)';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'an object with fields';
  return typeof value === 'string' ? showText(value) : String(value);
}

export function showText(text: string): string {
  const short = text.length > 80 ? `${text.slice(0, 77)}…` : text;
  return printable(JSON.stringify(short.toWellFormed()));
}

/** A problem that depends on several objects, and the object that it is reported for. */
export interface CrossProblem<T> {
  readonly object: T;
  readonly problem: ObjectProblem;
}
