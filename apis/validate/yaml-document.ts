import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isPair,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
} from 'yaml';
import type { FieldPath } from '../schema/json-schema.ts';
import { showText } from './problem.ts';

/**
 * Parsing takes about 300 times the size of the text in memory; a larger document would exceed the
 * memory of an agent. Compared with the length in UTF-16 code units.
 */
const MAX_DOCUMENT_BYTES = 4 * 1024 * 1024;

type YamlResult =
  | { readonly value: unknown; readonly lineOf: (path: FieldPath) => number }
  | { readonly reason: string; readonly line: number };

/**
 * Parses one document of YAML 1.2 (with merge keys) to a plain value, with the line of each field
 * (from 1). Duplicate keys, unknown tags and aliases that expand too much are errors. Never throws.
 */
export function parseYaml(text: string): YamlResult {
  if (text.length > MAX_DOCUMENT_BYTES) {
    const reason = `is a document of ${text.length} characters, more than ${MAX_DOCUMENT_BYTES} (4 MiB); split it with "---", or save it as JSON`;
    return { reason, line: 1 };
  }
  const strange = findStrange(text);
  if (strange !== null) return strange;
  const counter = new LineCounter();
  try {
    const document = parseDocument(text, {
      prettyErrors: false,
      merge: true,
      // The parser compares every key with every other one; checkNode looks at each key once.
      uniqueKeys: false,
      lineCounter: counter,
      logLevel: 'error',
    });
    const error = document.errors[0] ?? document.warnings[0];
    if (error !== undefined) {
      return { reason: yamlReason(error), line: counter.linePos(error.pos[0]).line };
    }
    const unsound = checkNode(document.contents, { count: 0 });
    if (unsound !== null) {
      return { reason: `is not valid YAML: ${unsound.reason}`, line: counter.linePos(unsound.offset).line };
    }
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    if (text.includes('*') && isCyclic(value, new Set(), new Set())) {
      return { reason: 'is not valid YAML: an alias refers to a value that contains it', line: 1 };
    }
    return { value, lineOf: (path) => counter.linePos(offsetOf(document, path)).line };
  } catch (error) {
    return { reason: yamlReason(error as Error), line: aliasLine(text, error) };
  }
}

/** Limit of aliases: the parser's time grows with the square of their number. */
const MOST_ALIASES = 1000;

interface Unsound {
  readonly reason: string;
  readonly offset: number;
}

/** Finds duplicate keys and too many aliases. Much faster than the `visit` of yaml. */
function checkNode(node: unknown, aliases: { count: number }): Unsound | null {
  if (isAlias(node) && ++aliases.count > MOST_ALIASES) {
    return { reason: `it has more than ${MOST_ALIASES} aliases`, offset: startOf(node) ?? 0 };
  }
  if (!isMap(node) && !isSeq(node)) return null;
  const keys = new Set<string>();
  for (const item of node.items) {
    const { key, value } = isPair(item) ? item : { key: null, value: item };
    if (isPair(item)) {
      const text = String(keyText(key));
      if (keys.has(text) && text !== '<<') {
        return { reason: `the field ${showText(text)} appears twice`, offset: startOf(key) ?? 0 };
      }
      keys.add(text);
    }
    const found = checkNode(key, aliases) ?? checkNode(value, aliases);
    if (found !== null) return found;
  }
  return null;
}

function yamlReason({ message }: Error): string {
  return /call stack/.test(message) ? 'is nested too deeply' : `is not valid YAML: ${firstLine(message)}`;
}

/** The line of an unresolved alias; the parser's error has only its name. */
function aliasLine(text: string, error: unknown): number {
  const name = /^Unresolved alias .*: (\S+)$/.exec((error as Error).message)?.[1];
  const offset = name === undefined ? -1 : text.indexOf(`*${name}`);
  return text.slice(0, Math.max(0, offset)).split('\n').length;
}

/**
 * Whether the value contains itself; visits each part once. A value that is nested too deeply
 * overflows the stack, as in the parser.
 */
function isCyclic(value: unknown, around: Set<unknown>, done: Set<unknown>): boolean {
  if (typeof value !== 'object' || value === null || done.has(value)) return false;
  if (around.has(value)) return true;
  around.add(value);
  for (const part of Object.values(value)) if (isCyclic(part, around, done)) return true;
  around.delete(value);
  done.add(value);
  return false;
}

function firstLine(text: string): string {
  const line = text.split('\n', 1)[0] ?? '';
  return line.length > 200 ? `${line.slice(0, 199)}…` : line;
}

/**
 * Deep nesting within one line: the parser's time grows with the square of the depth, or its stack
 * overflows.
 */
const STRANGE: readonly (readonly [RegExp, string])[] = [
  [/(?:(?:[-?:]|[&!*][^\s,[\]{}]{0,64})[ \t]{1,64}|[[{][ \t]{0,64}){24}/, 'is nested too deeply'],
  // The first key by its last character alone: there is a match if and only if this one matches.
  [/[^\n,[\]{}"'#:]:[ \t]{1,64}(?:[^\n,[\]{}"'#:]{1,64}:[ \t]{1,64}){23}/, 'is nested too deeply'],
  [/(?:[&!][^\s,[\]{}]{0,64}[ \t\r\n]{1,64}){8}/, 'has too many anchors or tags on one value'],
];

function findStrange(text: string): { reason: string; line: number } | null {
  for (const [pattern, reason] of STRANGE) {
    const match = pattern.exec(text);
    if (match !== null) return { reason, line: text.slice(0, match.index).split('\n').length };
  }
  return null;
}

/** Offset of the field, or of the innermost part of the path that exists. */
function offsetOf(document: Document, path: FieldPath): number {
  let node: unknown = document.contents;
  let offset = startOf(node) ?? 0;
  for (const step of path) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isPair(item) && String(keyText(item.key)) === String(step));
      if (pair === undefined) break;
      offset = startOf(pair.key) ?? offset;
      node = pair.value;
    } else if (isSeq(node) && typeof step === 'number') {
      node = node.items[step];
      offset = startOf(node) ?? offset;
    } else break;
  }
  return offset;
}

function keyText(key: unknown): unknown {
  return isNode(key) ? (key as { value?: unknown }).value : key;
}

function startOf(node: unknown): number | undefined {
  return isNode(node) ? ((node as Node).range?.[0] ?? undefined) : undefined;
}
